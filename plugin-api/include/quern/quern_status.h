/* Status codes of every C function of Quern: the plugin ABI and the public API.
 *
 * A code is never renumbered or reused. 0 is success; a caller treats a code that it does not know as
 * QUERN_INTERNAL. */
#ifndef QUERN_STATUS_H
#define QUERN_STATUS_H

#include <stdint.h>

typedef int32_t quern_status;

#define QUERN_OK 0
#define QUERN_INVALID_ARGUMENT 1    /* the caller's mistake: a null pointer, a bad shape, an unknown name */
#define QUERN_UNSUPPORTED 2         /* well formed, and not offered here; the text says what is */
#define QUERN_NOT_FOUND 3           /* a file, a device, a tensor or a key that is not there */
#define QUERN_OUT_OF_MEMORY 4       /* device memory; the error carries requested and available bytes */
#define QUERN_HOST_OUT_OF_MEMORY 5  /* host memory */
#define QUERN_DEVICE_LOST 6         /* sticky: the device answers nothing else until it is opened again */
#define QUERN_TIMEOUT 7
#define QUERN_BUSY 8                /* max_in_flight reached, or children still alive; nothing was done */
#define QUERN_CANCELLED 9
#define QUERN_VERSION 10            /* ABI epoch, minor or header hash do not fit */
#define QUERN_DRIVER_MISSING 11
#define QUERN_DRIVER_TOO_OLD 12
#define QUERN_DEPENDENCY_MISSING 13 /* a shared library that the plugin needs is not installed */
#define QUERN_ARCH_NOT_BUILT 14     /* no kernels for this device architecture or CPU level */
#define QUERN_PERMISSION 15
#define QUERN_FORKED 16             /* called after fork; only destroy works there */
#define QUERN_IO 17                 /* the operating system refused a read or a write */
#define QUERN_INTERNAL 18           /* a bug of ours */
#define QUERN_DEPENDENCY_FAILED 19  /* a run that this one waits for failed; nothing was written */
#define QUERN_BAD_MODEL 20          /* a model, vocabulary, template, adapter or saved state is malformed */
#define QUERN_CONTEXT_FULL 21       /* the prompt does not fit the context */
#define QUERN_BACKEND_UNAVAILABLE 22 /* the demanded backend or device cannot be used; the text says why */
#define QUERN_DOES_NOT_FIT 23       /* refused before allocating: the estimate is above the limit */

#endif
