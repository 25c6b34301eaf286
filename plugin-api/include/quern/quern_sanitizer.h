/* QUERN_SANITIZER: what the compiler instruments this code with: 0 nothing, 1 address, 2 thread. It goes into the ELF note
 * (quern_note.sanitizer), because a plugin and its host must agree. */
#ifndef QUERN_SANITIZER_H
#define QUERN_SANITIZER_H

#if defined(__SANITIZE_ADDRESS__)
#define QUERN_SANITIZER 1
#elif defined(__SANITIZE_THREAD__)
#define QUERN_SANITIZER 2
#elif defined(__has_feature) /* clang */
#if __has_feature(address_sanitizer)
#define QUERN_SANITIZER 1
#elif __has_feature(thread_sanitizer)
#define QUERN_SANITIZER 2
#endif
#endif
#ifndef QUERN_SANITIZER
#define QUERN_SANITIZER 0
#endif

#endif
