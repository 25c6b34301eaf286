/* The public C API of Quern, in libquern.so.1: load a model, tokenise, generate, evaluate, measure.
 *
 * Nouns. A runtime finds backends and devices, and loads models. A session holds the sequences (the key/value cache)
 * of one model. A vocabulary is a model file's tokenizer and chat template, usable without weights.
 *
 * Conventions, for every function here:
 *   - C99. The library never prints, exits or aborts. A function that can fail returns a quern_status
 *     (quern_status.h; QUERN_OK is 0). After a failure quern_last_error() holds a sentence for the user: what was
 *     asked, what was found, what to do. Every out parameter of handle type is then null, and nothing has to be
 *     released.
 *
 *   - An option struct starts with struct_size = sizeof of itself as the caller knows it. Zero in every other
 *     member is the default, so `quern_model_options o = {sizeof o};` is valid, and a null pointer means all
 *     defaults. A struct that the library fills takes struct_size in the same way, and only members inside it
 *     are written. Members are only ever appended.
 *
 *   - A handle that a function creates is released with its own release function; null is allowed there.
 *     Handles may be released in any order. A child keeps alive what it needs: a session its model, a model its
 *     runtime.
 *
 *   - A `const char *` that the library returns belongs to the handle it came from, is NUL-terminated UTF-8
 *     and lives as long as that handle, unless the comment says otherwise. Strings and arrays that the caller
 *     passes are read during the call and never kept.
 *
 *   - (buffer, capacity, needed): *needed always receives the full size. A null buffer with capacity 0 asks
 *     for the size and returns QUERN_OK; a capacity that is too small returns QUERN_INVALID_ARGUMENT and
 *     writes nothing else.
 *
 *   - Token ids are int32_t. Paths are UTF-8 as given to open(); an error names them as given.
 *
 * Threads. "Any thread": may be called at any time from any thread, at the same time as other calls. "One at
 * a time": at most one such call on the same handle at a time, from any thread; a second one returns
 * QUERN_BUSY at once and changes nothing. Every function is "any thread" unless its comment says "one at a
 * time". Releasing a handle while a call on it runs is the caller's mistake. Callbacks run on the calling
 * thread unless said otherwise, and must not throw.
 *
 * In callbacks every function may be called, and returns at once. It returns QUERN_BUSY where it would have to wait for the call that calls
 * back. That is any call on a session that generates, a load on a runtime that loads, and a pull of a model that is being pulled. A
 * callback of the log may come from the middle of anything: there, all functions return QUERN_BUSY but those that read a handle. A handle
 * may be released in any callback; if the call that called back uses it, it lives until that call ends.
 *
 * After fork() a child cannot compute with its parent's runtimes, models, sessions and tensors: functions on them return QUERN_FORKED, and
 * their release functions free what the child can free. All other handles work there, a vocabulary above all. A runtime that the child makes
 * itself computes. A call whose callback forks goes on in the parent, and ends with QUERN_FORKED in a child that returns from the callback.
 *
 * Stack. A call that finds too little of it on its thread returns QUERN_HOST_OUT_OF_MEMORY, and the text names the stack. On the CPU 128
 * KiB are enough. Devices with drivers need 512 KiB, although drivers give no bound for their own needs. On stacks that a program made
 * itself (coroutines) nothing is checked. */
#ifndef QUERN_H
#define QUERN_H

#include <stddef.h>
#include <stdint.h>

#include "quern/quern_dtypes.h"
#include "quern/quern_status.h"

#if defined(__GNUC__)
#define QUERN_API __attribute__((visibility("default")))
#else
#define QUERN_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Version and errors -------------------------------------------------------------------------------- */

/* "0.2.0", a static string. Never fails. */
QUERN_API const char *quern_version(void);

/* How this library was built, one line for people: compiler, build type, sanitizer, commit if known. Static.
 * */
QUERN_API const char *quern_build(void);

/* The plugin ABI that this library hosts: the epoch (part of the entry symbol) and the newest minor it knows.
 * */
QUERN_API uint32_t quern_plugin_abi_epoch(void);
QUERN_API uint32_t quern_plugin_abi_minor(void);

/* Why the last failing call on this thread failed; "" if none did. The text belongs to the thread and is
 * replaced by the next failing call on it; a successful call leaves it alone. Never null. One line of UTF-8 of at
 * most 2047 bytes: what it quotes of files, variables and servers is in escapes (\x1b, \u202e), fit for a terminal. */
QUERN_API const char *quern_last_error(void);

/* "QUERN_BAD_MODEL" for QUERN_BAD_MODEL; "QUERN_INTERNAL" for a code that this library does not know. Static.
 * */
QUERN_API const char *quern_status_name(quern_status status);

/* ---- Calls into plugins -------------------------------------------------------------------------------- */

/* A call into a plugin that has not returned. The strings are printable and live as long as the process. */
typedef struct quern_open_call {
  uint64_t struct_size;
  uint64_t number;      /* no other call of this process has it */
  const char *backend;  /* "cuda" */
  const char *device;   /* "cuda:0"; "" for a call that is about the plugin as a whole */
  const char *call;     /* of quern_plugin_api: "submit"; "load" and "query" before there is a table */
  const char *path;     /* of the plugin's file */
  uint32_t this_thread; /* 1: the calling thread made it */
  uint32_t reserved;
} quern_open_call;

/* Call `index` of those that have not returned: 1, and *out is filled; 0 behind the last. The calling thread's come first, the innermost in
 * front. A program reads them in its handlers of SIGSEGV, SIGABRT and exit, and names the plugin that crashed, ended the program or hangs.
 * The library itself installs no handler. Any thread, and safe in a signal handler. */
QUERN_API uint32_t quern_open_calls(uint64_t index, quern_open_call *out);

enum {
  QUERN_FAULT_CRASHED = 1, /* by a signal */
  QUERN_FAULT_EXITED = 2,  /* the plugin ended the program */
  QUERN_FAULT_HUNG = 3     /* the call was given up */
};

/* Keeps in the cache folder that this call failed. The next load report says so, until the plugin's file changes or a run has closed the
 * plugin in which the same call returned. A plugin that crashed or ended the program is ranked behind all others. `signal` is that of a crash,
 * else 0. 1: it is kept. Any thread, and safe in a signal handler. */
QUERN_API uint32_t quern_keep_fault(const quern_open_call *call, uint32_t fault, int32_t signal);

/* `text` has the first `size` bytes, 4,096 at most, of what was printed while `call` was open. It ends with the call, as *call does. */
typedef void (*quern_printed_fn)(void *user, const quern_open_call *call, const char *text, uint64_t size);

/* No plugin may print, and one that does mixes its words with the program's results. A program that wants to know moves its results to another
 * descriptor, and puts an empty file in the place of its standard output: memfd_create(), dup2(). It gives that file here. Behind each call
 * into a plugin what lies in the file is told and taken away, by the thread that made the call. -1, or a null `told`: no longer. For the whole
 * process; not while a call into a plugin is open. */
QUERN_API void quern_watch_output(int32_t file, quern_printed_fn told, void *user);

/* ---- Text that the library made ------------------------------------------------------------------------ */

/* Immutable bytes with a length and a terminating NUL that is not counted; may hold NULs itself. */
typedef struct quern_text quern_text;

/* The bytes; "" for null. They live until the release. */
QUERN_API const char *quern_text_data(const quern_text *text);
QUERN_API uint64_t quern_text_size(const quern_text *text);
QUERN_API void quern_text_release(quern_text *text);

/* ---- Runtime ------------------------------------------------------------------------------------------- */

typedef struct quern_runtime quern_runtime;

enum {
  QUERN_LEVEL_DEFAULT = 0, /* QUERN_LOG, else info */
  QUERN_LEVEL_TRACE = 1,
  QUERN_LEVEL_DEBUG = 2,
  QUERN_LEVEL_INFO = 3,
  QUERN_LEVEL_WARN = 4,
  QUERN_LEVEL_ERROR = 5,
  QUERN_LEVEL_OFF = 6
};

/* One line of the log, without a newline. `component` is "loader", "runtime", "cpu" ... Both strings live
 * during the call. Calls of one runtime are serialised, and may come from any thread. The callback must not fork() and return in the child;
 * what else it may call: "In callbacks" above. The text is in escapes as that of quern_last_error(). */
typedef void (*quern_log_callback)(void *user, uint32_t level, const char *component, const char *text);

enum { QUERN_DETERMINISTIC_DEFAULT = 0, QUERN_DETERMINISTIC_ON = 1, QUERN_DETERMINISTIC_OFF = 2 };

/* A member that is null or 0 takes its value from the environment variable named beside it, and without that
 * the default; ignore_environment skips these variables. CUDA_VISIBLE_DEVICES is always honoured, since the
 * driver does so too. Paths from the environment are ignored in a setuid program. */
typedef struct quern_runtime_options {
  uint64_t struct_size;
  const char *backend;            /* QUERN_BACKEND: "cuda" or "cuda,cpu": a demand; only these, in this order */
  const char *backend_disable;    /* QUERN_BACKEND_DISABLE: "vulkan" or "vulkan,cuda": never opened */
  const char *device;             /* QUERN_DEVICE: "cuda:0", a PCI address or a UUID: a demand for that device */
  const char *backend_path;       /* QUERN_BACKEND_PATH: plugin folders, ':' between, instead of the default */
  const char *backend_extra_path; /* QUERN_BACKEND_EXTRA_PATH: plugin folders in front of the others */
  const char *memory;             /* QUERN_MEMORY: limits, "cuda:0=8G,cpu=512M"; K M G T are powers of 1024 */
  const char *fallback;           /* QUERN_FALLBACK: "auto", "warn" (default) or "strict" */
  const char *force_kernel;       /* QUERN_FORCE_KERNEL: "cpu:avx2": one kernel family of a backend, for tests */
  const char *cache_dir;          /* QUERN_CACHE_DIR: probe results, packed weights; default $XDG_CACHE_HOME/quern */
  uint32_t threads;               /* QUERN_THREADS: of the CPU; default one a processor that we may use */
  uint32_t deterministic;         /* QUERN_DETERMINISTIC=1: QUERN_DETERMINISTIC_...; default off */
  uint32_t allow_dev_plugins;     /* QUERN_ALLOW_DEV_PLUGINS=1: accept plugins of another header hash */
  uint32_t ignore_environment;    /* 1: none of these variables, nor CUDA_FORCE_CPU, AXOLOTL_FORCE_CPU */
  uint32_t log_level;             /* QUERN_LOG: trace debug info warn error off; the least that reaches `log` */
  uint32_t reserved;              /* 0 */
  quern_log_callback log;         /* null: nothing is logged */
  void *log_user;
  /* QUERN_WEIGHTS_CACHE: "off" (default), "on" or "verify": keep packed weights in files of the cache folder, and map them instead of
   * packing anew. A file belongs to one model file, by size, inode, times of change, head and samples of each tensor, and to its layouts. All
   * of it is checked while it is mapped. With "verify" the whole model is read too, and its sum compared. */
  const char *weights_cache;
  const char *weights_cache_limit; /* QUERN_WEIGHTS_CACHE_LIMIT: bytes of these files, "32G"; "0": none; default 64G */
  uint32_t probe_in_process; /* QUERN_PROBE_IN_PROCESS=1: start no processes; a plugin that crashes then takes the caller with it */
  uint32_t reserved2;        /* 0 */
} quern_runtime_options;

/* Inspects, loads and negotiates the plugins. A plugin that cannot be used is no failure: it is in the
 * report. Nor is a demand that cannot be met: quern_runtime_ready() tells, so that the report can be read
 * first. GPUs are probed when they are first needed. Errors: QUERN_INVALID_ARGUMENT for an option that cannot
 * be read (the text names it, or its variable, and the value). */
QUERN_API quern_status quern_runtime_create(const quern_runtime_options *options, quern_runtime **out);
QUERN_API void quern_runtime_release(quern_runtime *runtime);

/* Whether the demands (backend, device) can be met and there is any device to compute on. quern_model_load()
 * checks the same first. Errors: QUERN_BACKEND_UNAVAILABLE; the text names the demand, its origin, the reason
 * and the remedy. */
QUERN_API quern_status quern_runtime_ready(quern_runtime *runtime);

/* Processors that this process may use, as its affinity, its cpuset and the quotas of its control groups leave them: how many threads of
 * the CPU compute where `threads` gives no number. */
QUERN_API quern_status quern_usable_processors(uint32_t *out);

/* ---- Load report: what became of each plugin file ------------------------------------------------------ */

typedef struct quern_load_report quern_load_report; /* a snapshot */

typedef struct quern_load_entry {
  uint64_t struct_size;
  const char *path;     /* of the plugin file */
  const char *backend;  /* "cpu"; "" if the file did not say */
  const char *version;  /* of the plugin; "" if unknown */
  const char *stage;    /* the last stage reached: "discover", "inspect", "load", "negotiate", "probe" or "open" */
  quern_status code;    /* QUERN_OK: usable so far */
  uint32_t selected;    /* 1: a device of it is to be used, or is in use */
  const char *cause;    /* why it was refused, in words; "" if it was not */
  const char *remedy;   /* what to do; "" if unknown */
  const char *report_code; /* stable, "QUERN-L-0201"; quern-doctor(1) lists them */
  const char *command;     /* one to type; "" if there is none */
} quern_load_entry;

/* Probes every plugin that is not disabled (so it may take seconds with cold GPUs) and takes a snapshot. */
QUERN_API quern_status quern_runtime_load_report(quern_runtime *runtime, quern_load_report **out);
QUERN_API uint64_t quern_load_report_count(const quern_load_report *report);
/* Strings belong to the report. Errors: QUERN_NOT_FOUND for an index at or above the count. */
QUERN_API quern_status quern_load_report_entry(const quern_load_report *report, uint64_t index,
                                                 quern_load_entry *out);
/* The report as a page for people (what `quern doctor` prints, the verdict first), and as one JSON object. Its members are lists of objects.
 * "plugins" has {path, backend, version, stage, status, code, usable, selected, cause, remedy, command}. "devices" has {name, backend,
 * description, device_class, architecture, pci, uuid, driver, usable, code, reason, command, rank}. "notes" has faults of the machine as {code,
 * path, cause, remedy, command}. "cards" has each processor and graphics card once, as {name, address, driver, verdicts}, and verdicts is a list
 * of {backend, device, used, code, reason}. "libraries" has {name, path, version, usable}. "vulkan_drivers" has {manifest, library,
 * api_version, code}. "searched" is the list of folders, and "nvidia_driver" one text. */
QUERN_API quern_status quern_load_report_words(const quern_load_report *report, quern_text **out);
QUERN_API quern_status quern_load_report_json(const quern_load_report *report, quern_text **out);
QUERN_API void quern_load_report_release(quern_load_report *report);

/* ---- Devices ------------------------------------------------------------------------------------------- */

typedef struct quern_device_list quern_device_list; /* a snapshot */

enum { QUERN_MEMORY_UNKNOWN = 0, QUERN_MEMORY_ESTIMATE = 1, QUERN_MEMORY_EXACT = 2 }; /* how sure a number is */

typedef struct quern_device_entry {
  uint64_t struct_size;
  const char *name;         /* "cuda:0": backend and index, as QUERN_DEVICE takes it */
  const char *backend;      /* "cuda" */
  const char *description;  /* the product's name */
  const char *device_class; /* "discrete", "unified", "integrated", "cpu", "software" or "other" */
  const char *architecture; /* "sm_90", "x86-64 avx2" ...; "" if unknown */
  const char *pci;          /* "0000:01:00.0"; "" if none */
  const char *uuid;         /* "" if none */
  const char *driver;       /* version found; "" if none */
  const char *reason;       /* why it is not used (also: served by another backend); "" if it is */
  uint64_t memory_total;    /* bytes of its main heap, or the limit of the container; 0 if unknown */
  uint64_t memory_budget;   /* bytes that we may use: what is free, and below the limit set with `memory` */
  uint32_t memory_certainty; /* QUERN_MEMORY_... of the two above */
  uint32_t usable;          /* 1: its probe computed the right answer */
  uint32_t selected;        /* 1: a model loaded now would use it */
  uint32_t rank;            /* 0 is the best; meaningless unless usable */
} quern_device_entry;

/* Probes every backend that is not disabled. Best first, unusable ones last. */
QUERN_API quern_status quern_runtime_devices(quern_runtime *runtime, quern_device_list **out);
QUERN_API uint64_t quern_device_list_count(const quern_device_list *devices);
/* Strings belong to the list. Errors: QUERN_NOT_FOUND for an index at or above the count. */
QUERN_API quern_status quern_device_list_entry(const quern_device_list *devices, uint64_t index,
                                                 quern_device_entry *out);
/* One JSON array with the members of quern_device_entry, named as there. */
QUERN_API quern_status quern_device_list_json(const quern_device_list *devices, quern_text **out);
QUERN_API void quern_device_list_release(quern_device_list *devices);

/* ---- Vocabulary: tokenizer and chat template, without weights ------------------------------------------ */

typedef struct quern_vocabulary quern_vocabulary; /* immutable: all its functions are "any thread" */

/* Reads the tokenizer and the chat template of a model file, or of a file that holds nothing else. Needs no
 * runtime. Errors: QUERN_NOT_FOUND, QUERN_IO, QUERN_PERMISSION for the file; QUERN_BAD_MODEL (malformed; the
 * text names file and field); QUERN_UNSUPPORTED (a tokenizer we do not have); QUERN_HOST_OUT_OF_MEMORY. */
QUERN_API quern_status quern_vocabulary_open(const char *path, quern_vocabulary **out);

typedef struct quern_vocabulary_options {
  uint64_t struct_size;
  const char *tokenizer_pre; /* the rule that cuts a text before byte-level BPE merges ("qwen2"), in place of the file's
                              * tokenizer.ggml.pre; null: that of the file */
} quern_vocabulary_options;

/* The same with options (null: none). Errors also: QUERN_INVALID_ARGUMENT for a tokenizer_pre that is not known (the text
 * lists those that are), or that the file's tokenizer has no use for. */
QUERN_API quern_status quern_vocabulary_open_with(const char *path, const quern_vocabulary_options *options,
                                                  quern_vocabulary **out);
QUERN_API void quern_vocabulary_release(quern_vocabulary *vocabulary);

/* Number of entries; ids are 0 to size - 1. */
QUERN_API uint32_t quern_vocabulary_size(const quern_vocabulary *vocabulary);
/* The token in front of a text, and the (first) one that ends an answer; -1 if there is none. */
QUERN_API int32_t quern_vocabulary_bos(const quern_vocabulary *vocabulary);
QUERN_API int32_t quern_vocabulary_eos(const quern_vocabulary *vocabulary);
/* 1 if the token ends an answer (a file may name several). */
QUERN_API int quern_vocabulary_is_end(const quern_vocabulary *vocabulary, int32_t token);
/* What is doubtful about it, as one sentence for the user: a file that names no tokenizer.ggml.pre, and the rule that is taken
 * then; "" if nothing is. quern_model_load() writes the same to the log. */
QUERN_API const char *quern_vocabulary_warning(const quern_vocabulary *vocabulary);
/* The template's source text; null if the file has none. */
QUERN_API const char *quern_vocabulary_chat_template(const quern_vocabulary *vocabulary);
/* How many seconds of the calling thread's CPU time reading and rendering the template may take, in what begins after this call; 2
 * unless set. A template is part of a file that others wrote: it also may take 10 million steps and 64 MiB. Errors:
 * QUERN_INVALID_ARGUMENT for a number that is not above 0. */
QUERN_API quern_status quern_vocabulary_set_template_seconds(const quern_vocabulary *vocabulary, double seconds);

enum {
  QUERN_TOKENIZE_NO_BOS = 1,    /* add no token in front; otherwise one is added where the file says so */
  QUERN_TOKENIZE_NO_SPECIAL = 2, /* the text of a special token is plain text; otherwise it becomes that token */
  QUERN_TOKENIZE_SPECIAL_IN_MESSAGES = 4, /* of quern_tokenize_rendered() alone: so it does in a message's text too */
  QUERN_TOKENIZE_NO_EOS = 8     /* add no token behind; otherwise one is added where the file says so (add_eos_token) */
};

/* Ids of `text` (text_size bytes; need not end with NUL, may hold any bytes). (ids, capacity, count) as
 * (buffer, capacity, needed) above, in ids; text_size + 8 is enough for almost every text. Empty text gives
 * no ids, not even a BOS or EOS. Errors: QUERN_INVALID_ARGUMENT for an unknown flag, QUERN_BAD_MODEL where the text
 * has a byte for which the vocabulary has no token. */
QUERN_API quern_status quern_tokenize(const quern_vocabulary *vocabulary, const char *text, uint64_t text_size,
                                      uint32_t flags, int32_t *ids, uint64_t capacity, uint64_t *count);

enum { QUERN_DETOKENIZE_SPECIAL = 1 }; /* write the text of special tokens too; otherwise they give nothing */

/* Bytes of the ids (not NUL-terminated; may end inside a UTF-8 character). Errors: QUERN_INVALID_ARGUMENT for
 * an id outside the vocabulary, or an unknown flag. */
QUERN_API quern_status quern_detokenize(const quern_vocabulary *vocabulary, const int32_t *ids, uint64_t count,
                                        uint32_t flags, char *buffer, uint64_t capacity, uint64_t *needed);

/* The bytes of one token as it appears inside a text, special tokens included; they belong to the vocabulary.
 * Errors: QUERN_INVALID_ARGUMENT for an id outside the vocabulary. */
QUERN_API quern_status quern_token_bytes(const quern_vocabulary *vocabulary, int32_t token, const char **bytes,
                                         uint64_t *size);

typedef struct quern_message {
  uint64_t struct_size;  /* sizeof(quern_message) in each element: it is also the stride of an array of them */
  const char *role;      /* "system", "user", "assistant", or what else the template knows */
  const char *content;
  uint64_t content_size; /* bytes of content; 0: it ends at its NUL */
} quern_message;

enum { QUERN_RENDER_NO_GENERATION_PROMPT = 1 }; /* do not open the assistant's turn at the end */

/* Renders the model's own template over the messages; quern_tokenize_rendered() makes ids of the result, which
 * also holds what of the text came from the messages. Errors:
 * QUERN_UNSUPPORTED where the file has no template or an empty one, or where the template reaches what our Jinja subset
 * lacks (the text names it); QUERN_BAD_MODEL where it is malformed or
 * passes a limit; QUERN_INVALID_ARGUMENT where the template itself refuses
 * the messages (its sentence is in the text). */
QUERN_API quern_status quern_render_chat(const quern_vocabulary *vocabulary, const quern_message *messages,
                                         uint64_t count, uint32_t flags, quern_text **out);

typedef struct quern_chat quern_chat; /* messages with all that they may hold; immutable */

/* Reads a chat: a JSON list of messages, or an object with that list as "messages" and perhaps "tools". A message has a "role" and
 * a "content": a string, a list of {"type": "text", "text": ...}, or null beside "tool_calls". All its other members ("name",
 * "tool_calls", "tool_call_id", ...) and "tools" are given to the template. `size` bytes, at most 16 MiB; they need not end with NUL.
 * Errors: QUERN_INVALID_ARGUMENT for what is no JSON or has another shape (the text names the message, from 1, and a part that is
 * no text by its type). */
QUERN_API quern_status quern_chat_from_json(const char *json, uint64_t size, quern_chat **out);
QUERN_API void quern_chat_release(quern_chat *chat);

/* As quern_render_chat, for such a chat. A template that reads parts gets them as they are, another one their text, joined. */
QUERN_API quern_status quern_chat_render(const quern_vocabulary *vocabulary, const quern_chat *chat, uint32_t flags,
                                         quern_text **out);

/* Ids of a text of quern_render_chat() or quern_chat_render(), with the BOS neither lost nor doubled, and no EOS, since
 * the answer follows. Only the
 * template's own text becomes special tokens, so that whoever writes a message cannot end a turn or begin another one. The text of
 * a special token in a message, a role or a name is plain text, also where it is put together of parts. User-defined
 * tokens count as special unless they are words of plain text, such as runs of spaces. A role that chats know
 * ("user", "tool") counts as the template's. (ids, capacity, count) as above. `flags` takes QUERN_TOKENIZE_NO_BOS
 * and QUERN_TOKENIZE_SPECIAL_IN_MESSAGES, with which special tokens come of the whole text. Errors as
 * quern_tokenize; QUERN_UNSUPPORTED where the template put the text of no message into the prompt; QUERN_INVALID_ARGUMENT
 * for a text that neither of the two has made; QUERN_CONTEXT_FULL, with both numbers, as soon as there are more ids than the
 * model's context has. */
QUERN_API quern_status quern_tokenize_rendered(const quern_vocabulary *vocabulary, const quern_text *rendered,
                                               uint32_t flags, int32_t *ids, uint64_t capacity, uint64_t *count);

/* Ids of a chat that a caller has rendered itself: special tokens recognised in all of it, and the BOS neither lost
 * nor doubled, and no EOS. A message in it may hold the text of a special token and so forge a turn; use
 * quern_tokenize_rendered() for messages that others write. (ids, capacity, count) as above. `flags` takes
 * QUERN_TOKENIZE_NO_BOS. Errors as quern_tokenize_rendered. */
QUERN_API quern_status quern_tokenize_chat(const quern_vocabulary *vocabulary, const char *rendered,
                                           uint64_t rendered_size, uint32_t flags, int32_t *ids, uint64_t capacity,
                                           uint64_t *count);

/* What the file of a model or of an adapter has, without loading it, as one JSON object. An adapter is a PEFT folder, its
 * adapter_model.safetensors, or a GGUF file.
 * Of a model: {"file", "file_bytes", "kind": "model", "format", "version", "architecture", "name", "parameters", "context_length",
 * "vocabulary_size", "chat_template", "shape", "refusal", "warnings", "notes", "weights", "metadata", "tensors"}.
 * Of an adapter: {"file", "file_bytes", "kind": "adapter", "format": "peft" or "gguf", "version", "architecture", "name", "base_model",
 * "parameters", "adapter", "refusal", "weights", "metadata", "tensors"}.
 * "adapter" has {ranks, alphas, rslora, scales, dropout, targets, layers, matrices, tensors}. It is null where "refusal" has the reason why
 * the adapter cannot be used. "warnings" is a list as of quern_vocabulary_warning, "notes" one of how weights are read. "shape" has {hidden, feed_forward, layers, heads,
 * kv_heads, head_size ...}. "weights" has bytes by dtype. "metadata" has the values by key; an array longer than 16 is {"type", "count"}. "tensors" is a
 * list of {name, dtype, shape, bytes}. A field that the file lacks is null. A string of more than 64 KiB, the template too, is {"type",
 * "bytes"}. Keys and tensors behind 2 MiB of each's text are left out and counted in "metadata_left_out" and
 * "tensors_left_out", which are there only then. Errors as quern_vocabulary_open. */
QUERN_API quern_status quern_show_json(const char *path, quern_text **out);

/* ---- Model --------------------------------------------------------------------------------------------- */

typedef struct quern_model quern_model; /* immutable once loaded */

enum { QUERN_ACTIVATIONS_AUTO = 0, QUERN_ACTIVATIONS_F32 = 1 }; /* f32: exact numerics */
enum { QUERN_KV_DEFAULT = 0, QUERN_KV_F16 = 1, QUERN_KV_F32 = 2 }; /* the default is f16 */

/* Called now and then while a model loads, on the loading thread; total is constant. Returns 0 to go on;
 * anything else cancels the load (QUERN_CANCELLED). */
typedef int (*quern_progress_callback)(void *user, uint64_t done_bytes, uint64_t total_bytes);

typedef struct quern_model_options {
  uint64_t struct_size;
  uint64_t context;     /* the most tokens a sequence will have; 0: the smaller of the model's and 4,096 */
  uint32_t sequences;   /* the most sequences at a time, all sessions together; memory is planned for them; 0: 1 */
  uint32_t activations; /* QUERN_ACTIVATIONS_... */
  uint32_t kv;          /* QUERN_KV_...: dtype of the key/value cache */
  uint32_t reserved;    /* 0 */
  quern_progress_callback progress; /* may be null */
  void *progress_user;
  uint32_t embeddings;  /* 1: quern_embed() works on its sessions; every step then keeps the hidden states of its outputs */
  uint32_t reserved2;   /* 0 */
  const char *tokenizer_pre; /* as quern_vocabulary_options.tokenizer_pre */
  const char *const *adapters; /* files that sessions may use as adapters: steps get room for their ranks on the products that they change,
                                * and memory for as many at a time; null: no session can use one */
  uint64_t adapter_count;
} quern_model_options;

/* Reads the file, places it on the devices, packs the weights. Afterwards the file is not read again. Two
 * loads on one runtime take turns; one in a callback does not wait for its turn (QUERN_BUSY). Errors: QUERN_NOT_FOUND, QUERN_IO, QUERN_PERMISSION for the file;
 * QUERN_BAD_MODEL (malformed; names file and field); QUERN_UNSUPPORTED (an architecture, format or tokenizer
 * that we do not have); QUERN_BACKEND_UNAVAILABLE (a demand cannot be met, or strict mode and a part of the
 * model that the device lacks); QUERN_CONTEXT_FULL (options.context is above the model's, with both numbers);
 * QUERN_DOES_NOT_FIT (refused before allocating; the text has the bytes needed and available, and the nearest
 * setting that fits); QUERN_OUT_OF_MEMORY, QUERN_HOST_OUT_OF_MEMORY; QUERN_CANCELLED;
 * QUERN_INVALID_ARGUMENT. */
QUERN_API quern_status quern_model_load(quern_runtime *runtime, const char *path, const quern_model_options *options,
                                        quern_model **out);
QUERN_API void quern_model_release(quern_model *model);

typedef struct quern_model_info {
  uint64_t struct_size;
  const char *path;          /* as given */
  const char *architecture;  /* "llama" */
  const char *name;          /* general.name, or "" */
  const char *weights;       /* the format that most weights have, "Q4_1" */
  const char *chat_template; /* source text; null if none */
  uint64_t parameters;       /* elements of all tensors; a tied head counts once */
  uint64_t file_bytes;
  uint64_t context_length;   /* that the model was trained for */
  uint64_t context;          /* that it was loaded for */
  uint32_t vocabulary_size;
  uint32_t hidden;
  uint32_t layers;
  uint32_t heads;
  uint32_t kv_heads;
  uint32_t head_size;
  uint32_t feed_forward;
  uint32_t kv;          /* QUERN_KV_F16 or QUERN_KV_F32 */
  uint32_t activations; /* QUERN_ACTIVATIONS_... */
  uint32_t devices;     /* how many devices hold layers */
  const char *backend;  /* of the device with most layers, "cpu" */
  const char *device;   /* its name, "cpu:0" */
  const char *device_description;
  const char *kernels;  /* the kernel set that it chose, "avx2"; what ran is in the statistics */
} quern_model_info;

/* Strings belong to the model. */
QUERN_API quern_status quern_model_get_info(const quern_model *model, quern_model_info *out);

/* The tokenizer and template of a loaded model; belongs to the model, not to be released. Never null for a
 * model. */
QUERN_API const quern_vocabulary *quern_model_vocabulary(const quern_model *model);

/* Where the layers lie and why, for people, in a few lines; and as JSON {"devices": [{device, nodes,
 * weights_bytes, weights_from ("model" or "cache"), weights_file (of the cache; "" if none), weights_note (why a
 * file was not used or is not written; "" if there is nothing to say)}], "cuts": [{from, to, value, reason,
 * bytes_per_token}]}. */
QUERN_API quern_status quern_model_placement_words(const quern_model *model, quern_text **out);
QUERN_API quern_status quern_model_placement_json(const quern_model *model, quern_text **out);

/* What a step of the model does on each device, compiled anew for the answer: the schedules with the rows that they serve, the kernels
 * a layer of each, and the nodes that stand alone, by reason. The words end with a sentence where more than a tenth of what a step of
 * one row reads is read by nodes that a rule could not join. Bytes stand for time there: a plugin does not measure single nodes.
 * JSON: {"devices": [{device, told (false: its plugin gives no schedules), nodes, alone_share (of one row, 0 to 1), "schedules":
 * [{rows ("any", "a row a sequence" or "one sequence"), least, most, kernels, kernels_a_layer (null without layers), alone_share,
 * "alone": [{rule ("" where none is for the op), reason, complete (true: nothing is lost by it), nodes, "ops": [name], first (the name of
 * the first node), share (of the bytes that a step of `least` rows reads)}]}]}]}. least and most are 0 where a schedule serves every run.
 * Errors: as quern_session_create while it compiles. */
QUERN_API quern_status quern_model_plan_words(const quern_model *model, quern_text **out);
QUERN_API quern_status quern_model_plan_json(const quern_model *model, quern_text **out);

/* ---- Session ------------------------------------------------------------------------------------------- */

typedef struct quern_session quern_session; /* "one at a time", except where stated */

typedef struct quern_session_options {
  uint64_t struct_size;
  uint64_t context;   /* the most tokens per sequence; 0: the model's option */
  uint32_t sequences; /* numbered 0 to sequences - 1; 0: 1 */
  uint32_t reserved;  /* 0 */
} quern_session_options;

/* Allocates the key/value cache and builds what a decode step needs. Errors: QUERN_INVALID_ARGUMENT (above
 * the model's options), QUERN_DOES_NOT_FIT, QUERN_OUT_OF_MEMORY, QUERN_HOST_OUT_OF_MEMORY. */
QUERN_API quern_status quern_session_create(quern_model *model, const quern_session_options *options,
                                            quern_session **out);
QUERN_API void quern_session_release(quern_session *session);

/* Ends the generate, evaluate or bench call that runs on the session, if any. On a CPU that takes some 50 ms. On a
 * GPU the step that it computes then ends first. Generate then returns QUERN_OK with finish CANCELLED, evaluate returns
 * QUERN_CANCELLED. The sequences hold what they held before the step that was ended. Where a GPU was given steps behind that
 * one, at most three, it ends them behind the call. The session's next call that computes waits for them, and its
 * release does. Any thread, and safe in a signal handler: it only sets flags. Without a running call it does nothing. */
QUERN_API void quern_cancel(quern_session *session);

/* How many tokens a sequence holds. Errors: QUERN_INVALID_ARGUMENT for a sequence that the session does not
 * have. */
QUERN_API quern_status quern_sequence_length(const quern_session *session, uint32_t sequence, uint64_t *length);
/* Forgets everything at or after position `length` (0: all). One at a time. Errors: QUERN_INVALID_ARGUMENT if
 * it is longer than the sequence. */
QUERN_API quern_status quern_sequence_truncate(quern_session *session, uint32_t sequence, uint64_t length);
/* Makes `to` hold what `from` holds; nothing is computed or copied now. They share memory until one of them goes on,
 * and neither sees what the other does: before a sequence writes where another one reads, it takes a copy. That
 * needs no memory beyond what the session has for its sequences. One at a time. */
QUERN_API quern_status quern_sequence_copy(quern_session *session, uint32_t from, uint32_t to);

/* ---- Adapters of sequences ----------------------------------------------------------------------------- */

/* A LoRA adapter for one model, whose weights it leaves alone: a folder as peft writes it, or a GGUF file as llama.cpp reads it. */
typedef struct quern_adapter quern_adapter;

/* Reads an adapter. It need not be one of the model's option `adapters`, but changes no product that none of them changes, with no higher
 * rank. Nothing is compiled for it. Errors: QUERN_NOT_FOUND, QUERN_IO, QUERN_PERMISSION; QUERN_BAD_MODEL for a file that is malformed or
 * does not fit the model (with lists of what would not apply); QUERN_UNSUPPORTED; QUERN_INVALID_ARGUMENT where the model was not loaded
 * for it. */
QUERN_API quern_status quern_adapter_load(quern_model *model, const char *path, quern_adapter **out);
QUERN_API void quern_adapter_release(quern_adapter *adapter);

typedef struct quern_adapter_info {
  uint64_t struct_size;
  const char *path;       /* as given */
  const char *base_model; /* that the file names, or "" */
  uint64_t parameters;
  uint64_t rank;     /* the highest of a matrix */
  uint64_t matrices; /* that it changes */
  double alpha;
  uint32_t rslora;   /* 1: scales are alpha / sqrt(rank), else alpha / rank */
  uint32_t reserved; /* 0 */
} quern_adapter_info;

/* Strings belong to the adapter. */
QUERN_API quern_status quern_adapter_get_info(const quern_adapter *adapter, quern_adapter_info *out);

/* From here on a sequence is computed with the adapter (null: without one), at `scale` times its own scale (0: 1). The sequence forgets what
 * it holds where that changes it. quern_sequence_copy() takes the adapter along; a saved session is restored into sequences with the same
 * ones. The session keeps what it uses: the handle may be released. One at a time. Errors: QUERN_INVALID_ARGUMENT for an adapter of another
 * model, a scale that is not finite, a sequence that the session does not have, and where other sequences use as many adapters as the model
 * was loaded for. */
QUERN_API quern_status quern_session_use_adapter(quern_session *session, uint32_t sequence, quern_adapter *adapter, double scale);

/* ---- Generate ------------------------------------------------------------------------------------------ */

typedef struct quern_logit_bias {
  int32_t token;
  float bias; /* added to the logit; -INFINITY forbids the token */
} quern_logit_bias;

#define QUERN_WINDOW_ALL UINT32_MAX

/* Applied in this order: penalties, logit bias, top-k, top-p, min-p, temperature, draw. All zero is greedy.
 * The draw depends on nothing but seed, sequence and step. */
typedef struct quern_sampling {
  uint64_t struct_size;
  float temperature;       /* 0: greedy (the best after penalties and bias; the lowest id of equals) */
  float top_p;             /* the smallest set of best tokens with this probability; 0 or 1: off */
  float min_p;             /* tokens with at least this share of the best one's probability; 0: off */
  float repeat_penalty;    /* divides positive, multiplies negative logits of tokens seen; 0 or 1: off */
  float presence_penalty;  /* subtracted from the logit of a token seen; 0: off */
  float frequency_penalty; /* subtracted once for each time it was seen; 0: off */
  uint32_t penalty_window; /* how many last tokens count as seen, prompt included; 0: 64; or QUERN_WINDOW_ALL */
  uint32_t top_k;          /* 0: off */
  uint64_t seed;
  const quern_logit_bias *bias;
  uint64_t bias_count;
} quern_sampling;

enum {
  QUERN_FINISH_END = 1,      /* the model ended the answer: an end token */
  QUERN_FINISH_STOP = 2,     /* a stop string */
  QUERN_FINISH_LENGTH = 3,   /* max_tokens */
  QUERN_FINISH_CONTEXT = 4,  /* the context is full */
  QUERN_FINISH_CANCELLED = 5, /* quern_cancel, or the callback */
  QUERN_FINISH_LOOP = 6       /* the answer went in circles, and LOOP_GUARD was set */
};

typedef struct quern_token_event {
  uint64_t struct_size;
  uint32_t request;     /* index in the array of requests */
  int32_t token;        /* -1: no new token, only text that was held back until the end */
  const char *piece;    /* bytes certain now: whole UTF-8 characters, no start of a stop string. As the model made them: a host
                         * that shows them on a terminal escapes control and bidirectional characters first */
  uint64_t piece_size;
  float logprob;        /* natural, before temperature and filters; NaN unless asked for */
  uint32_t top_count;   /* as many as request.logprobs asked for */
  const int32_t *top;   /* ids of the best ones, best first */
  const float *top_logprobs;
} quern_token_event;

/* Called for each token, on the thread that called quern_generate; up to four calls may follow at once where a device was given
 * as many steps of a lone request together. Pointers live during the call. Returns 0 to go on; anything else ends this request
 * (CANCELLED), and not the others. It may call quern_cancel; other functions that compute on the session return QUERN_BUSY. */
typedef int (*quern_token_callback)(void *user, const quern_token_event *event);

enum {
  QUERN_REQUEST_APPEND = 1,    /* the prompt follows what the sequence holds; otherwise it is the whole content, and
                                  the longest common start with what the sequence holds is not computed again */
  QUERN_REQUEST_LOOP_GUARD = 2 /* end the answer (LOOP) once it goes in circles: at least 256 tokens in a row, each the same as the one
                                  a period before it. Periods up to 256 tokens are seen, and need three rounds after the first */
};

typedef struct quern_request {
  uint64_t struct_size;          /* sizeof(quern_request) in each element: it is also the stride of an array of them */
  const int32_t *prompt;
  uint64_t prompt_count;         /* at least 1, or with APPEND 0 where the sequence is not empty */
  uint32_t sequence;             /* each request of a call has its own */
  uint32_t flags;                /* QUERN_REQUEST_... */
  const quern_sampling *sampling; /* null: greedy */
  uint64_t max_tokens;           /* 0: until the end or the context */
  const char *const *stop;       /* strings that end the answer; they are not part of its text */
  uint64_t stop_count;
  uint32_t logprobs;             /* 0: none; n: each token's logprob and the n best (at most 20) */
  uint32_t ignore_end;           /* 1: end tokens do not stop the answer (for measurements) */
  quern_token_callback on_token; /* may be null */
  void *user;
} quern_request;

typedef struct quern_generation quern_generation; /* the answers of one call */

/* Answers all requests together, one batch. An answer does not depend on the others in the batch. Returns
 * when all are finished. `out` may be null if the callbacks suffice. One at a time. Errors, before anything
 * is computed: QUERN_INVALID_ARGUMENT (the text names request and member), QUERN_CONTEXT_FULL (a prompt does
 * not fit, with both numbers), QUERN_BUSY. While computing: QUERN_DEVICE_LOST, QUERN_OUT_OF_MEMORY,
 * QUERN_HOST_OUT_OF_MEMORY, QUERN_INTERNAL; the sequences then hold what was computed until there. */
QUERN_API quern_status quern_generate(quern_session *session, const quern_request *requests, uint64_t count,
                                      quern_generation **out);

typedef struct quern_answer_info {
  uint64_t struct_size;
  const int32_t *ids;      /* generated ones, the end token included */
  uint64_t id_count;
  const char *text;        /* without the text of special tokens and of a stop string; NUL-terminated */
  uint64_t text_size;
  uint32_t finish;         /* QUERN_FINISH_... */
  uint32_t reserved;
  uint64_t prompt_tokens;
  uint64_t reused_tokens;  /* of the prompt, found in the cache */
  double prompt_seconds;   /* until the prompt was computed; in a batch, of all prompts together */
  double decode_seconds;   /* from there to the last token */
  const float *logprobs;   /* one for each id; null unless asked for */
} quern_answer_info;

/* Pointers belong to the generation. Errors: QUERN_NOT_FOUND for an index at or above the number of requests.
 * */
QUERN_API quern_status quern_generation_answer(const quern_generation *generation, uint64_t request,
                                               quern_answer_info *out);
/* The best alternatives at one generated token, best first. Errors: QUERN_NOT_FOUND (index, or none were
 * asked for). */
QUERN_API quern_status quern_generation_top(const quern_generation *generation, uint64_t request, uint64_t token_index,
                                            const int32_t **ids, const float **logprobs, uint64_t *count);
QUERN_API void quern_generation_release(quern_generation *generation);

/* "end", "stop", "length", "context", "cancelled"; "unknown" for another value. Static. */
QUERN_API const char *quern_finish_name(uint32_t finish);

/* ---- Evaluate ------------------------------------------------------------------------------------------ */

typedef struct quern_evaluation quern_evaluation;

enum {
  QUERN_EVALUATE_LOGITS = 1,    /* keep the logits of the last position */
  QUERN_EVALUATE_ALL_LOGITS = 2 /* keep those of every position: count * vocabulary floats */
};

typedef struct quern_evaluation_info {
  uint64_t struct_size;
  uint64_t count;         /* tokens read */
  double nll_sum;         /* of the count - 1 predicted tokens, natural log; 0 if there is none */
  const int32_t *argmax;  /* [count] the best next token after reading each one; the lowest id of equals */
  const float *margin;    /* [count] best minus second-best logit */
  const float *nll;       /* [count] of the next token; NaN at the last */
  const float *logits;    /* [logit_count] of the last position, or [count][vocabulary] of all; null unless asked for */
  uint64_t logit_count;   /* the vocabulary's size, count times that, or 0 */
  double seconds;
} quern_evaluation_info;

/* Reads the ids from position 0 of a sequence (what it held is forgotten) and compares each prediction with
 * the next one. One at a time. Errors: QUERN_INVALID_ARGUMENT (no ids, an id outside the vocabulary),
 * QUERN_CONTEXT_FULL, QUERN_CANCELLED, and while computing as quern_generate. */
QUERN_API quern_status quern_evaluate(quern_session *session, uint32_t sequence, const int32_t *ids, uint64_t count,
                                      uint32_t flags, quern_evaluation **out);
/* Called as tokens are read, on the calling thread; total is constant. Returns 0 to go on; anything else ends the evaluation
 * (QUERN_CANCELLED). */
typedef int (*quern_evaluate_callback)(void *user, uint64_t done_tokens, uint64_t total_tokens);

typedef struct quern_evaluate_options {
  uint64_t struct_size;
  uint32_t flags;    /* QUERN_EVALUATE_... */
  uint32_t reserved; /* 0 */
  quern_evaluate_callback progress; /* may be null */
  void *progress_user;
} quern_evaluate_options;

/* quern_evaluate() with options; null is all zeros. */
QUERN_API quern_status quern_evaluate_with(quern_session *session, uint32_t sequence, const int32_t *ids, uint64_t count,
                                           const quern_evaluate_options *options, quern_evaluation **out);
/* Arrays belong to the evaluation. */
QUERN_API quern_status quern_evaluation_get_info(const quern_evaluation *evaluation, quern_evaluation_info *out);
QUERN_API void quern_evaluation_release(quern_evaluation *evaluation);

/* ---- Embeddings ---------------------------------------------------------------------------------------- */

enum {
  QUERN_POOL_LAST = 0, /* the hidden state of the last token */
  QUERN_POOL_MEAN = 1, /* the mean over all tokens, summed in f64 */
  QUERN_POOL_NONE = 2  /* one vector a token, in their order */
};
enum { QUERN_EMBED_NORMALISE = 1 }; /* scale each vector to length 1; one of length 0 stays */

/* The last hidden state of a text: what the head would read, after the final norm. Reads the ids from position 0 of a
 * sequence (what it held is forgotten; it holds the ids afterwards). (buffer, capacity, needed) as above, in floats:
 * the model's hidden size, times count with QUERN_POOL_NONE; asking for the size computes nothing. One at a time.
 * Errors: QUERN_INVALID_ARGUMENT (no ids, an id outside the vocabulary, an unknown pooling or flag; a model that was not
 * loaded with embeddings = 1), QUERN_CONTEXT_FULL, QUERN_CANCELLED, and while computing as quern_generate. */
QUERN_API quern_status quern_embed(quern_session *session, uint32_t sequence, const int32_t *ids, uint64_t count,
                                   uint32_t pooling, uint32_t flags, float *buffer, uint64_t capacity, uint64_t *needed);

/* ---- Save and restore ---------------------------------------------------------------------------------- */

/* All sequences of a session (tokens and key/value cache) as bytes that a later process can restore, with the
 * same model file and dtype of the cache. Only what the sequences hold is in them: nothing of forgotten tokens, so
 * that equal tokens give equal bytes, on a device whose steps are invariant (a CPU, or QUERN_DETERMINISTIC_ON). The
 * bytes are secrets as the texts are. (buffer, capacity, needed) as above. One at a time. A file is written aside,
 * with mode 0600, and renamed. A reader sees the old state or the new one, whenever the process is killed.
 * Only a regular file is replaced; its other names (hard links) keep the old state. Errors: QUERN_PERMISSION, and QUERN_IO
 * where a link, a folder, a pipe or a device stands there, the disk is full, or RLIMIT_FSIZE is reached (no SIGXFSZ comes). */
QUERN_API quern_status quern_session_save(quern_session *session, void *buffer, uint64_t capacity, uint64_t *needed);
QUERN_API quern_status quern_session_save_file(quern_session *session, const char *path);
/* Replaces all sequences. Sizes, ids and a checksum are looked at first: after one of the errors listed the session
 * is as it was. Where the device fails (QUERN_DEVICE_LOST ...) no sequence holds anything. The checksum finds
 * damage, not forgery: who can write the bytes chooses what the model has read. One at a time. Errors: QUERN_BAD_MODEL
 * for a state that is malformed or of another model, dtype or version of the format; the text names the cause. QUERN_CONTEXT_FULL for one longer
 * than this session's context. QUERN_INVALID_ARGUMENT for more sequences than this session has. For a file also QUERN_NOT_FOUND,
 * QUERN_IO and QUERN_PERMISSION, and QUERN_BAD_MODEL for a folder, a pipe or a device. */
QUERN_API quern_status quern_session_restore(quern_session *session, const void *data, uint64_t size);
QUERN_API quern_status quern_session_restore_file(quern_session *session, const char *path);

/* ---- Statistics: what ran where, counted from execution ------------------------------------------------ */

typedef struct quern_statistics quern_statistics; /* a snapshot */

typedef struct quern_statistics_info {
  uint64_t struct_size;
  const char *backend;      /* of the device that ran most nodes, "cpu"; "" if nothing ran yet */
  const char *device;       /* its name, "cpu:0" */
  const char *kernels;      /* the kernel set that ran there, "avx2" */
  uint64_t tokens_prefill;  /* since the session was created */
  uint64_t tokens_decode;
  double seconds_prefill;
  double seconds_decode;
  uint64_t steps;           /* submitted runs */
  uint64_t bytes_to_device; /* moved, tokens and logits included */
  uint64_t bytes_from_device;
  uint64_t devices;         /* entries below */
  uint64_t cuts;
} quern_statistics_info;

typedef struct quern_statistics_device {
  uint64_t struct_size;
  const char *device;
  const char *backend;
  const char *kernels;    /* names of the kernels that ran, ", " between them */
  uint64_t nodes;         /* graph nodes of a decode step placed here */
  uint64_t runs;          /* submitted */
  uint64_t weights_bytes;
  uint64_t kv_bytes;
  uint64_t scratch_bytes;
  uint64_t peak_bytes;    /* the most that was allocated at a time, all of the above together */
} quern_statistics_device;

typedef struct quern_statistics_cut {
  uint64_t struct_size;
  const char *from;         /* device names */
  const char *to;
  const char *node;         /* the node that made the cut necessary */
  const char *reason;       /* why `from` did not go on */
  uint64_t bytes_per_token; /* that cross here in a decode step */
} quern_statistics_cut;

/* One at a time. */
QUERN_API quern_status quern_session_statistics(quern_session *session, quern_statistics **out);
/* Strings belong to the snapshot. Errors: QUERN_NOT_FOUND for an index at or above the number of entries. */
QUERN_API quern_status quern_statistics_get_info(const quern_statistics *statistics, quern_statistics_info *out);
QUERN_API quern_status quern_statistics_get_device(const quern_statistics *statistics, uint64_t index,
                                                   quern_statistics_device *out);
QUERN_API quern_status quern_statistics_get_cut(const quern_statistics *statistics, uint64_t index,
                                                quern_statistics_cut *out);
/* All of it as one JSON object, members named as in the structs, with "devices" and "cuts" as arrays. */
QUERN_API quern_status quern_statistics_json(const quern_statistics *statistics, quern_text **out);
QUERN_API void quern_statistics_release(quern_statistics *statistics);

/* ---- Trace: what each step did, and when ---------------------------------------------------------------- */

/* Records every step of the session from here on, and forgets what was recorded before. One at a time. */
QUERN_API quern_status quern_session_trace_start(quern_session *session);
/* Ends the recording and gives it as one JSON object in the Chrome trace event format, for Perfetto or chrome://tracing. Times are
 * microseconds. The host is one process in it, and every device another. "traceEvents" has spans with counts. The host has one for each
 * step: rows, followers (further steps of a row each that went to the device with it), outputs, bytes_to_devices, bytes_from_devices,
 * bytes_between_devices. It also has one for each page that is copied because sequences share it: bytes. A device has one for each of its
 * parts of a step: nodes, submits, runs (of the step and its followers), recorded_anew, device_allocations, host_allocations, compiles,
 * bytes_between_host_and_device. It also has one for each copy from another device: bytes.
 *
 * Beside them, of a step of one row: "nodes" (graph, node, op, device, in the order in which they run), and "kernels" (graph, kernel,
 * device, node: the first that it computes, nodes: their number). One at a time. Errors: QUERN_INVALID_ARGUMENT if none was begun. */
QUERN_API quern_status quern_session_trace_json(quern_session *session, quern_text **out);

/* ---- Tensors, and one op at a time --------------------------------------------------------------------- */

/* Memory of one device with a dtype and a shape: row-major, the last dimension contiguous, in whole blocks for a quantised
 * format. Functions on a tensor are "one at a time" for that tensor: a second call that uses it returns QUERN_BUSY. */
typedef struct quern_tensor quern_tensor;

#define QUERN_TENSOR_DIMS 6 /* the most dimensions that a tensor has */

/* "f32" for QUERN_F32, "q4_k" for QUERN_Q4_K (quern_dtypes.h has all); "" for one that this library does not know. Static. */
QUERN_API const char *quern_dtype_name(quern_dtype dtype);
/* QUERN_DTYPE_NONE for null and for a name that this library does not know. */
QUERN_API quern_dtype quern_dtype_from_name(const char *name);

/* Allocates a tensor of zero bytes on a device: "cpu:0" as quern_device_entry.name, or null for the one that a model loaded
 * now would use first. shape[0] is the slowest dimension; none may be below 0, and `dims` is 1 to QUERN_TENSOR_DIMS. The
 * device is opened on first use; its tensors count against its memory limit. Errors: QUERN_INVALID_ARGUMENT (shape, dtype, a last
 * dimension that is not whole blocks), QUERN_NOT_FOUND (no such device among those that may be used; the text lists them),
 * QUERN_BACKEND_UNAVAILABLE, QUERN_OUT_OF_MEMORY, QUERN_HOST_OUT_OF_MEMORY. */
QUERN_API quern_status quern_tensor_create(quern_runtime *runtime, const char *device, quern_dtype dtype,
                                           const int64_t *shape, uint32_t dims, quern_tensor **out);
QUERN_API void quern_tensor_release(quern_tensor *tensor);

typedef struct quern_tensor_info {
  uint64_t struct_size;
  const char *device;   /* "cpu:0" */
  quern_dtype dtype;
  uint32_t dims;
  const int64_t *shape; /* [dims] */
  uint64_t elements;
  uint64_t bytes;
} quern_tensor_info;

/* Pointers belong to the tensor. Never waits for another call. */
QUERN_API quern_status quern_tensor_get_info(const quern_tensor *tensor, quern_tensor_info *out);

/* Copies `size` bytes, in the tensor's own dtype, from or to host memory, beginning at byte `offset` of the tensor. Errors:
 * QUERN_INVALID_ARGUMENT beyond its end; QUERN_DEVICE_LOST. */
QUERN_API quern_status quern_tensor_write(quern_tensor *tensor, uint64_t offset, const void *data, uint64_t size);
QUERN_API quern_status quern_tensor_read(const quern_tensor *tensor, uint64_t offset, void *data, uint64_t size);

/* Makes `to` hold what `from` holds, on whatever devices and in whatever dtypes they are; shapes must be equal. Another dtype is
 * converted by the op `cast` on the device of `from`, and on that of `to` where the first refuses it. Errors:
 * QUERN_INVALID_ARGUMENT (shapes differ), QUERN_UNSUPPORTED (neither device converts so), QUERN_OUT_OF_MEMORY,
 * QUERN_HOST_OUT_OF_MEMORY, QUERN_DEVICE_LOST. */
QUERN_API quern_status quern_tensor_copy(const quern_tensor *from, quern_tensor *to);

typedef struct quern_op_attribute {
  const char *name; /* "epsilon" */
  double value;     /* of an integer attribute: a whole number */
} quern_op_attribute;

typedef struct quern_op_call {
  uint64_t struct_size;
  const char *op;                    /* "rms_norm": a name of the op set, which OPS.md of the plugin API describes */
  const quern_tensor *const *inputs; /* in the op's order; null for an optional one that is absent */
  uint64_t input_count;
  quern_tensor **outputs;            /* in the op's order. A tensor: it is written, and read first where the op works in place
                                      * (`table` of set_rows, `w` of adamw). Null: the library makes one of the shape and dtype
                                      * that the op gives, and the caller releases it. */
  uint64_t output_count;             /* fewer than the op has: the others are made and dropped, or not computed if optional */
  const quern_op_attribute *attributes;
  uint64_t attribute_count;
  uint32_t fast;                     /* 1: products may round their inputs as models loaded with QUERN_ACTIVATIONS_AUTO do */
  uint32_t reserved;                 /* 0 */
} quern_op_call;

/* Runs one op on the device of its tensors, which must all lie on one, and returns when it is done. A plugin author and
 * a test call it. It is not the way to run a model, since each call compiles a graph. `kernels` may be null; else it
 * receives the names of the kernels that ran, ", " between. After an error the outputs that were given hold anything, and
 * none was made. Errors: QUERN_NOT_FOUND for an op or attribute that the op set lacks.
 * QUERN_INVALID_ARGUMENT for a call that breaks the op's contract, with the shapes found, and for tensors of two devices or runtimes.
 * QUERN_UNSUPPORTED where the device lacks the op for these dtypes and shapes; the text has the reason. Also QUERN_BUSY,
 * QUERN_OUT_OF_MEMORY, QUERN_HOST_OUT_OF_MEMORY and QUERN_DEVICE_LOST. */
QUERN_API quern_status quern_run_op(const quern_op_call *call, quern_text **kernels);

/* ---- Bench --------------------------------------------------------------------------------------------- */

/* After each measured repetition: "prefill" or "decode", its number from 1, its tokens per second. Returns 0
 * to go on; anything else ends the bench (QUERN_CANCELLED). */
typedef int (*quern_bench_callback)(void *user, const char *phase, uint32_t repetition, double tokens_per_second);

typedef struct quern_bench_options {
  uint64_t struct_size;
  uint32_t prompt_tokens; /* of a prefill; 0: 512 */
  uint32_t decode_tokens; /* of a decode; 0: 128 */
  uint32_t repetitions;   /* measured, after one that is not; 0: 5 */
  uint32_t batch;         /* sequences at a time; 0: 1 */
  uint64_t depth;         /* tokens already in each sequence before the measured part */
  quern_bench_callback progress; /* may be null */
  void *progress_user;
  quern_adapter *adapter; /* that all sequences use; may be null */
  double adapter_scale;   /* as quern_session_use_adapter; 0: 1 */
} quern_bench_options;

typedef struct quern_bench_speed {
  double tokens_per_second; /* mean over the repetitions, of all sequences together */
  double deviation;         /* standard deviation, 0 for one repetition */
  double best;
  double worst;
} quern_bench_speed;

typedef struct quern_bench_result {
  uint64_t struct_size;
  quern_bench_speed prefill;
  quern_bench_speed decode;
  double read_bytes_per_second;    /* the best pass before and after, over a buffer as large as the packed weights: of another
                                    * device its own copy (read and written) or product with one row, whichever moves more */
  double multiply_adds_per_second; /* the measured peak of the arithmetic that the weights use, same threads; of another device
                                    * its own fastest product by f16 or by the model's format */
  double decode_bandwidth_share;   /* bytes that a decode step must read * steps/s / read_bytes_per_second; 1 is all */
  double prefill_peak_share;       /* multiply-adds of a prefill / s / multiply_adds_per_second; either share is 0 where
                                    * the device had neither room nor op to measure its peak, or was slower at a product
                                    * alone than the model's prefill (others computed a part of it) */
  uint64_t bytes_per_step;         /* that a decode step must read: weights once, the cache of every sequence */
  uint64_t multiply_adds_per_token; /* of a prefill, mean over its positions */
  uint64_t peak_resident_bytes;    /* of this process, VmHWM */
  uint64_t peak_device_bytes;      /* allocated on the devices by us */
  uint32_t valid;                  /* 0: a share stayed above 1.05 when measured once more */
  uint32_t threads;
} quern_bench_result;

/* Measures a model through the same calls as an application: sessions and quern_generate. The model must be
 * loaded for depth + prompt_tokens + decode_tokens of context and for `batch` sequences. Greedy, end tokens
 * ignored. Errors: QUERN_INVALID_ARGUMENT, QUERN_CONTEXT_FULL, QUERN_CANCELLED, and as quern_session_create
 * and quern_generate. */
QUERN_API quern_status quern_bench(quern_model *model, const quern_bench_options *options, quern_bench_result *out);

/* ---- Estimate ------------------------------------------------------------------------------------------ */

typedef struct quern_estimate quern_estimate;

typedef struct quern_shape {
  uint64_t struct_size;
  uint64_t hidden;
  uint64_t feed_forward;
  uint64_t layers;
  uint64_t vocabulary;
  uint64_t heads;
  uint64_t kv_heads;  /* 0: as many as heads */
  uint64_t head_size; /* 0: hidden / heads */
  uint32_t tied;      /* 1: the head is the embedding */
  uint32_t reserved;  /* 0 */
} quern_shape;

typedef struct quern_estimate_options {
  uint64_t struct_size;
  uint64_t context;     /* 0: as quern_model_options (for a shape: 4,096) */
  uint32_t sequences;   /* 0: 1 */
  uint32_t activations; /* QUERN_ACTIVATIONS_... */
  uint32_t kv;          /* QUERN_KV_... */
  uint32_t reserved;    /* 0 */
  const char *const *adapters; /* as quern_model_options; of quern_estimate_file() with a runtime alone */
  uint64_t adapter_count;
} quern_estimate_options;

typedef struct quern_estimate_info {
  uint64_t struct_size;
  uint64_t parameters;
  uint64_t context;
  uint64_t weights_bytes;  /* of the file's own formats as they will lie in memory; for a shape: f16 */
  uint64_t kv_bytes;       /* for context and sequences, in the chosen dtype */
  uint64_t kv_bytes_f16;
  uint64_t kv_bytes_f32;
  uint64_t scratch_bytes;  /* of one session; 0 where scratch_known is 0 */
  uint64_t overhead_bytes; /* vocabulary, graphs, the process itself; 0 where scratch_known is 0 */
  uint64_t total_bytes;    /* weights, kv, scratch, overhead and adapters */
  uint64_t available_bytes; /* on the device that would be used, 0 if unknown */
  uint32_t scratch_known;
  uint32_t fits;           /* 1: total is at most available, or available is unknown */
  uint32_t dtypes;         /* entries below */
  uint32_t reserved;
  uint64_t adapter_bytes;  /* numbers and tables of the adapters, on the device; part of total */
} quern_estimate_info;

/* For a model file: only its header is read. With a runtime, scratch and available bytes are those of the
 * device that it would choose; with null they are unknown. Errors as quern_vocabulary_open,
 * QUERN_UNSUPPORTED, QUERN_INVALID_ARGUMENT. */
QUERN_API quern_status quern_estimate_file(quern_runtime *runtime, const char *path,
                                           const quern_estimate_options *options, quern_estimate **out);
/* For a llama-like model of that shape. Errors: QUERN_INVALID_ARGUMENT (a zero, heads that do not divide,
 * overflow). */
QUERN_API quern_status quern_estimate_shape(const quern_shape *shape, const quern_estimate_options *options,
                                            quern_estimate **out);
QUERN_API quern_status quern_estimate_get_info(const quern_estimate *estimate, quern_estimate_info *out);
/* What all parameters would take in one format: index 0 to dtypes - 1, f32, f16, bf16, then the quantised
 * ones. The name ("f32", "q4_k") belongs to the estimate. `available` is 0 where the shape does not allow it
 * (rows that do not fill its blocks); bytes are then 0. Errors: QUERN_NOT_FOUND. */
QUERN_API quern_status quern_estimate_dtype(const quern_estimate *estimate, uint32_t index, const char **name,
                                            uint64_t *bytes, int *available);
QUERN_API void quern_estimate_release(quern_estimate *estimate);

/* ---- Getting a model ----------------------------------------------------------------------------------- */

/* Names: "owner/name" of a repository on the hub, "owner/name:Q4_K_M" or "owner/name:FILE.gguf" for one of its
 * models, "owner/name@REVISION" with either for a branch, tag or commit; or the URL of a file. Without
 * quantisation the only model is meant, or else Q4_K_M. What comes from the hub lies in the cache that its
 * other clients use, in their layout; what comes from other URLs lies below the cache folder of Quern. */

typedef struct quern_pull_event {
  uint64_t struct_size;
  const char *file;    /* name of the file that comes now; "" before the first */
  uint64_t done_bytes; /* of all files of the model, those that were there before included */
  uint64_t total_bytes; /* 0: not known yet */
  const char *waiting; /* why nothing comes just now, with what happens next; "" while bytes come */
} quern_pull_event;

/* Called several times a second, on the calling thread. Returns 0 to go on; anything else cancels
 * (QUERN_CANCELLED), and what has come is kept. */
typedef int (*quern_pull_callback)(void *user, const quern_pull_event *event);

enum { QUERN_OFFLINE_DEFAULT = 0, QUERN_OFFLINE_ON = 1, QUERN_OFFLINE_OFF = 2 };

/* A member that is null or 0 takes its value from the environment variable named beside it, and without that the
 * default. Variables are ignored in a setuid program. */
typedef struct quern_hub_options {
  uint64_t struct_size;
  const char *endpoint;  /* HF_ENDPOINT: "https://huggingface.co" */
  const char *hub_cache; /* HF_HUB_CACHE, else hub below HF_HOME, else $XDG_CACHE_HOME/huggingface/hub */
  const char *cache_dir; /* QUERN_CACHE_DIR: models from URLs are in models below it; default $XDG_CACHE_HOME/quern */
  const char *token;     /* HF_TOKEN, else the file HF_TOKEN_PATH, else token below HF_HOME; sent to the endpoint alone */
  const char *sha256;    /* 64 hex digits that the one file pulled must have; only for quern_pull */
  uint32_t offline;      /* HF_HUB_OFFLINE=1: QUERN_OFFLINE_...; ON asks no network */
  uint32_t tries;        /* QUERN_HUB_TRIES: failures in a row, without 64 KiB between, until quern_pull gives up; default 6 */
  uint32_t timeout;      /* HF_HUB_DOWNLOAD_TIMEOUT: seconds without a byte that count as a failure; default 30 */
  uint32_t ignore_environment; /* 1: none of these variables; hub_cache is then needed, and cache_dir for URLs */
  quern_pull_callback progress; /* may be null; only for quern_pull */
  void *progress_user;
  uint64_t most_bytes;   /* QUERN_HUB_LIMIT: a file of more bytes is refused; default 512 GiB; UINT64_MAX is no limit */
  uint64_t least_rate;   /* QUERN_HUB_RATE: less bytes a second, over `timeout` seconds, count as a failure; default 1024 */
  uint64_t memory_bytes; /* weights of more bytes are refused before they come; 0: no limit; only for quern_pull */
} quern_hub_options;

/* Downloads a model, unless it is in the cache, and gives the path of the file to load (the first part of a split
 * model). Of a repository without GGUF files, and of "owner/name:safetensors", it is the folder with safetensors and what they need, whose
 * files come several at once. Goes on where an earlier pull ended; waits and tries again when the network fails or the server says
 * so; checks size and sum before a file gets its name. Waits where another pull of the same file runs, but in a callback returns QUERN_BUSY. Asks the hub for the revision each time. Errors:
 * QUERN_INVALID_ARGUMENT (not a name); QUERN_UNSUPPORTED (it means several models; the text lists them); QUERN_NOT_FOUND (no such
 * repository, revision, quantisation; or offline and not in the cache); QUERN_PERMISSION (401, 403: private or gated);
 * QUERN_DOES_NOT_FIT (more weights than memory_bytes: nothing comes); QUERN_BAD_MODEL (another size or sum than stated: nothing is kept; or no GGUF file); QUERN_IO (network, after the
 * tries; full disk); QUERN_DEPENDENCY_MISSING (no libcurl on this machine); QUERN_CANCELLED. */
QUERN_API quern_status quern_pull(const char *name, const quern_hub_options *options, quern_text **path);

/* The path of a model in the cache; never asks the network. Errors: QUERN_INVALID_ARGUMENT and QUERN_UNSUPPORTED as
 * quern_pull, QUERN_NOT_FOUND. */
QUERN_API quern_status quern_find_model(const char *name, const quern_hub_options *options, quern_text **path);

/* What is in the caches, as one JSON object: {"hub_cache", "url_cache" (folders), "models": [{name (as the functions
 * here take it), path, bytes, files, repository, revision, quantisation, source ("hub" or "url"), modified (seconds
 * since 1970)}]}. */
QUERN_API quern_status quern_cached_models_json(const quern_hub_options *options, quern_text **out);

/* Removes a model from the cache; for a name without quantisation, all GGUF models of the repository, or else its directory. Bytes that
 * another revision needs, and other files, stay. `freed_bytes` may be null. Errors: as quern_find_model;
 * QUERN_BUSY while another process downloads it; QUERN_IO. */
QUERN_API quern_status quern_remove_model(const char *name, const quern_hub_options *options, uint64_t *freed_bytes);

/* ---- Fine-tuning --------------------------------------------------------------------------------------- */

/* A training is a checked set of settings; a trainer is a run of it, which owns the base model's weights, what is trained, and the examples.
 * Settings come as JSON: a program turns its file (YAML, say) into JSON, and may tell where each key stood, so that errors name file and
 * line. docs/guides/fine-tuning.md lists the settings. */


typedef struct quern_training quern_training; /* settings, checked; memory alone */

typedef struct quern_training_options {
  uint64_t struct_size;
  const char *const *overrides; /* "lora_r=16", "datasets[0].path=x.jsonl": applied in their order; an empty value takes the key away */
  uint64_t override_count;
  const char *places; /* a JSON object from key path to place, {"lora.r": "cfg.yaml:12"}, with which errors begin; may be null */
} quern_training_options;

/* Reads settings from JSON. No file is opened. Errors: QUERN_INVALID_ARGUMENT for text that is no JSON object, an unknown key (with the
 * nearest known one), a key twice, a value of the wrong type or out of range, keys that contradict each other, a setting that Quern lacks. */
QUERN_API quern_status quern_training_open(const char *json, const quern_training_options *options, quern_training **out);
QUERN_API void quern_training_release(quern_training *training);

typedef struct quern_training_info {
  uint64_t struct_size;
  const char *base_model; /* as it was given: a path or a name */
  const char *output_dir;
  uint32_t logging_steps; /* how many steps lie between two lines of a log */
  uint32_t resumes;       /* 1: the run goes on from a checkpoint */
  uint32_t tensorboard;   /* 1: report_to asks for a file of events */
  uint32_t reserved;
} quern_training_info;

/* Strings belong to the training. */
QUERN_API quern_status quern_training_get_info(const quern_training *training, quern_training_info *out);

/* All settings as YAML, each with its value; read again they mean the same. */
QUERN_API quern_status quern_training_yaml(const quern_training *training, quern_text **out);
/* A sentence for each key that was given and changes nothing, one a line; empty text where there is none. */
QUERN_API quern_status quern_training_notes(const quern_training *training, quern_text **out);
/* A commented settings file for a new run of `model`; `kind` is "lora", "qlora" or "full". Errors: QUERN_INVALID_ARGUMENT. */
QUERN_API quern_status quern_training_starter(const char *kind, const char *model, quern_text **out);

typedef struct quern_trainer quern_trainer;

/* Behind a step of the optimiser. */
typedef struct quern_training_step {
  uint64_t struct_size;
  uint64_t step;        /* that is done, from 1 */
  uint64_t steps;       /* of the whole run */
  double epoch;         /* epochs that are done, with the share of the current one */
  double loss;          /* mean over the labels of the batch, weighted, in nats */
  double gradient_norm; /* before clipping */
  double rate;
  uint64_t tokens;      /* rows of the batch */
  uint64_t labels;      /* tokens of it that the loss counts */
  uint64_t skipped;     /* steps so far whose gradients were not finite: they changed nothing */
  double seconds;
  uint64_t memory_bytes; /* in use on the runtime's devices */
} quern_training_step;

/* A look at the validation set. */
typedef struct quern_training_evaluation {
  uint64_t struct_size;
  uint64_t step;
  double loss; /* mean over all its labels, weighted, in nats; it does not depend on the size of batches */
  uint64_t labels;
  uint32_t best; /* 1: the lowest so far */
  uint32_t reserved;
  double seconds;
} quern_training_evaluation;

/* All on the calling thread; each may be null. A callback of a step or an evaluation returns 0 to go on; anything else ends the run behind
 * this step, with a checkpoint. Pointers are valid during the call. */
typedef struct quern_training_callbacks {
  uint64_t struct_size;
  void *user;
  int (*step)(void *user, const quern_training_step *step);
  int (*evaluation)(void *user, const quern_training_evaluation *evaluation);
  void (*saved)(void *user, uint64_t step, const char *folder); /* a checkpoint is whole */
  void (*warning)(void *user, const char *sentence);            /* examples that were dropped, a save that failed */
  int (*progress)(void *user, uint64_t done, uint64_t total);   /* examples of quern_training_evaluate_json(); nonzero ends it */
} quern_training_callbacks;

/* Reads the base (a path; a name of the hub is the caller's to find) and the data, compiles, loads the weights, and goes on from a
 * checkpoint where the settings ask for it. The runtime's devices compute. `base` may be null: base_model of the settings. `callbacks` may
 * be null; only `warning` is called here. Errors: as quern_model_load; QUERN_INVALID_ARGUMENT for settings that this base cannot follow, and
 * for a checkpoint of a run with other settings, data or base; QUERN_BAD_MODEL for data that cannot be read, with file and line;
 * QUERN_DOES_NOT_FIT before anything large is allocated. */
QUERN_API quern_status quern_trainer_create(quern_runtime *runtime, const quern_training *training, const char *base,
                                            const quern_training_callbacks *callbacks, quern_trainer **out);
QUERN_API void quern_trainer_release(quern_trainer *trainer);

/* What a run would take, as one JSON object: the members of quern_trainer_json() without memory_bytes, peak_bytes and allocations, then fits,
 * and where it does not fit "lack": a sentence with the nearest settings that do. "estimate" has, in bytes: weights_bytes (frozen),
 * trained_bytes (with gradients and moments), activations_bytes (with scratch; head_bytes of them is the head's), evaluation_bytes,
 * devices_bytes (the sum), host_bytes (in the process, beside the devices). The plans are compiled and no weight is loaded. Arguments and
 * errors: as quern_trainer_create, without QUERN_DOES_NOT_FIT. */
QUERN_API quern_status quern_training_estimate_json(quern_runtime *runtime, const quern_training *training, const char *base,
                                                    const quern_training_callbacks *callbacks, quern_text **out);

enum {
  QUERN_TRAINING_DONE = 1,     /* all steps are done */
  QUERN_TRAINING_STOPPED = 2,  /* a callback, quern_trainer_cancel() or most_steps ended the run */
  QUERN_TRAINING_EARLY = 3,    /* the validation loss did not fall for early_stopping_patience evaluations */
  QUERN_TRAINING_WATCHDOG = 4  /* the loss stayed above loss_watchdog_threshold, or was not finite too often */
};

/* Trains until an end, `most_steps` steps at most (0: all that are left), and may be called again. *end is one of QUERN_TRAINING_...
 * One at a time. Errors: QUERN_IO and QUERN_PERMISSION where a checkpoint that ends the run cannot be written; QUERN_DEVICE_LOST. */
QUERN_API quern_status quern_trainer_run(quern_trainer *trainer, uint64_t most_steps, const quern_training_callbacks *callbacks,
                                         uint32_t *end);
/* Ends quern_trainer_run() behind the step in flight, with a checkpoint. Any thread, and safe in a signal handler. */
QUERN_API void quern_trainer_cancel(quern_trainer *trainer);

/* The loss of the validation set now. One at a time. Errors: QUERN_INVALID_ARGUMENT without one. */
QUERN_API quern_status quern_trainer_evaluate(quern_trainer *trainer, quern_training_evaluation *out);
/* Writes a checkpoint into output_dir; `folder` gets its path and may be null. One at a time. */
QUERN_API quern_status quern_trainer_save(quern_trainer *trainer, quern_text **folder);
/* Writes the result into output_dir: the adapter as peft reads it, of the best step with load_best_model_at_end. One at a time. */
QUERN_API quern_status quern_trainer_write_result(quern_trainer *trainer);

/* What the run has before it and behind it, as one JSON object. Members: device, base, step, steps, steps_of_epoch, micro_batches_of_epoch,
 * trained_parameters. precision is that of rows and products, f32, bf16 or f16, and precision_reason has why. estimate is that of
 * quern_training_estimate_json. memory_bytes are in use on the runtime's devices now, and peak_bytes were at most. allocations were made so
 * far. train and validation have examples, tokens, labels, longest, dropped_long, dropped_unlabelled and bad_lines. One at a time. */
QUERN_API quern_status quern_trainer_json(quern_trainer *trainer, quern_text **out);
/* Example `index` of the training data as one JSON object: source, ids, weights (of each id as a target; 0: it does not count), and
 * pieces: [{text, counts}]. One at a time. Errors: QUERN_NOT_FOUND. */
QUERN_API quern_status quern_trainer_example_json(quern_trainer *trainer, uint64_t index, quern_text **out);
/* Whether the gradients of the run's first batch are right. A run in 16 bits is checked by one in f32 beside it. One JSON object has
 * passed, device, precision (f32), weights_sha256 (of the frozen weights), weights_unchanged, tolerance, tensors: [{name, elements, first_norm, norm (before and behind an update), fault (empty: none)}],
 * directions: [{tensors, slope, difference, step, right}]. A direction moves some tensors; `slope` is what the gradient makes of it, and
 * `difference` what the losses at both sides give. What is trained is as before afterwards. One at a time. */
QUERN_API quern_status quern_trainer_check_gradients_json(quern_trainer *trainer, quern_text **out);

/* Records each micro-batch, update and evaluation of the trainer from here on, and forgets what was recorded before. One at a time. */
QUERN_API quern_status quern_trainer_trace_start(quern_trainer *trainer);
/* Ends the recording and gives it as quern_session_trace_json does. The host has spans "micro-batch", "update" and "evaluation", with rows,
 * examples, labels, bytes_to_devices, bytes_from_devices and bytes_between_devices. "nodes" and "kernels" are those of all graphs of the run.
 * One at a time. Errors: QUERN_INVALID_ARGUMENT if none was begun. */
QUERN_API quern_status quern_trainer_trace_json(quern_trainer *trainer, quern_text **out);

/* ---- Adapters as files --------------------------------------------------------------------------------- */

/* An adapter is a folder as peft writes it (adapter_config.json, adapter_model.safetensors; the path of the second stands for the folder) or a
 * GGUF file as llama.cpp reads it. Every tensor of it must apply to the base, or it is refused with lists of what does not. */
typedef struct quern_merge_adapter {
  uint64_t struct_size;
  const char *path;
  double scale; /* beside the adapter's own; 0: 1 */
} quern_merge_adapter;

/* The loss of a data set over its tokens that count, by the base with an adapter. Where `adapter` is null, by the base alone. One JSON
 * object: loss (the weighted mean, in nats), perplexity, base, device, seconds, data: {examples, tokens, labels, longest, dropped_long,
 * truncated, dropped_unlabelled, bad_lines}. The loss equals the validation loss of a run with these weights. The data are those of test_datasets or
 * val_set_size; without them, of datasets. Settings that concern training alone have no effect. No gradients are computed and nothing is
 * allocated for them. `base` and `callbacks` as quern_trainer_create; `warning` and `progress` are called. Errors: as quern_trainer_create;
 * QUERN_BAD_MODEL for an adapter that does not fit; QUERN_CANCELLED where `progress` ends it. */
QUERN_API quern_status quern_training_evaluate_json(quern_runtime *runtime, const quern_training *training, const char *base,
                                                    const quern_merge_adapter *adapter, const quern_training_callbacks *callbacks,
                                                    quern_text **out);

typedef struct quern_merge_options {
  uint64_t struct_size;
  quern_dtype type; /* of the matrices that are written; QUERN_DTYPE_NONE: adapted ones f16, all others as they are */
  uint32_t keep;    /* 1: each tensor in the base's own format; `type` is then QUERN_DTYPE_NONE */
} quern_merge_options;

/* Writes the base with adapters added to its weights, W + scale B A in f32 over the decoded weights, each encoded once, as a GGUF file. The
 * runtime's devices compute. `adapters` is an array whose stride is the struct_size of its first element. Errors: QUERN_BAD_MODEL for a file
 * that is malformed or an adapter that does not fit; QUERN_INVALID_ARGUMENT for a type whose blocks do not fill a row; QUERN_UNSUPPORTED;
 * QUERN_IO and QUERN_PERMISSION. */
QUERN_API quern_status quern_merge(quern_runtime *runtime, const char *base, const quern_merge_adapter *adapters, uint64_t count,
                                   const quern_merge_options *options, const char *out);

enum { QUERN_ADAPTER_PEFT = 0, QUERN_ADAPTER_GGUF = 1 };

/* Writes an adapter as a PEFT folder or as a GGUF file. `base` is its base model, whose rows a GGUF adapter follows. `dtype`
 * is QUERN_F32, QUERN_F16 or QUERN_BF16; QUERN_DTYPE_NONE is f32. Errors: as quern_merge. */
QUERN_API quern_status quern_export_adapter(const char *adapter, const char *base, uint32_t format, quern_dtype dtype, const char *out);

/* ---- Models in another form ---------------------------------------------------------------------------- */

typedef struct quern_convert_options {
  uint64_t struct_size;
  quern_dtype type;         /* of the matrices: QUERN_F32, QUERN_F16 or QUERN_BF16. QUERN_DTYPE_NONE: as they are; block formats become bf16 in a directory */
  uint32_t vocabulary_only; /* 1: a GGUF file without tensors */
  uint64_t shard_bytes;     /* of the tensors in a file, at most; 0: 5 GB in a directory, and a GGUF file is not split */
} quern_convert_options;

/* Writes a model, a GGUF file or a Hugging Face directory, in another form: a GGUF file where `out` ends with ".gguf", else a directory
 * that transformers opens. The runtime's devices decode block formats. One tensor at a time is in memory. What is written takes its name when
 * it is whole, and nothing may be there before. Errors: QUERN_BAD_MODEL; QUERN_UNSUPPORTED for a model that no directory holds;
 * QUERN_INVALID_ARGUMENT for a number that the type does not hold; QUERN_IO for a place that is taken, and QUERN_PERMISSION. */
QUERN_API quern_status quern_convert(quern_runtime *runtime, const char *from, const char *out, const quern_convert_options *options);

/* ---- Types of weights, and importance matrices ---------------------------------------------------------- */

typedef struct quern_quantize_options {
  uint64_t struct_size;
  const char *type;                 /* of the file: "Q4_K_M", "Q8_0", "F16" ..., in capitals or not; null with `to` and target_bits */
  const char *imatrix;              /* an importance matrix, GGUF or llama.cpp's .dat; null: all columns count the same */
  const char *const *tensor_types;  /* "REGEX=TYPE": tensors in whose names the expression is found; the first one counts */
  uint64_t tensor_type_count;
  const char *output_type;          /* of the head; null: by the type of the file */
  const char *embedding_type;       /* of the table of embeddings; null: by the type of the file */
  uint32_t pure;                    /* 1: all matrices get the type that the file is named after */
  uint32_t allow_requantize;        /* 1: weights that lie in blocks already may change */
  uint32_t dry_run;                 /* 1: nothing is written, and `out` may be null */
  uint32_t reserved;                /* 0 */
  quern_progress_callback progress; /* bytes of the model that is read; may be null */
  void *progress_user;
  const char *to;                   /* "awq", "compressed-tensors", "fp8" or "fp8-channel": a directory; null: a GGUF file */
  double target_bits;               /* bits for a weight of a GGUF file, at most, in place of `type`; 0: none */
} quern_quantize_options;

/* Writes a model (a GGUF file, or a Hugging Face directory) as a GGUF file with other types of weights. Types are those of llama-quantize's file
 * of the same name, tensor by tensor. Block formats are encoded by weighted least squares on the runtime's threads; its devices are not used. The
 * bytes do not depend on the number of threads. With target_bits, the types are those of least total error within that size, and what
 * tensor_types, output_type and embedding_type say stays. An error is measured on rows of the tensor, and counts by its part of the model. With
 * `to`, the weights of the layers become codes in a directory of the form that transformers reads. All else becomes f16 or bf16 there, and "awq" needs an importance matrix. *report is one JSON object: type (or `to`), tensors: [{name,
 * shape, from, to, bytes, instead_of (where rows are no whole blocks of that type)}], bytes_before, bytes, bits_per_weight. `report` may be null.
 * Errors: QUERN_INVALID_ARGUMENT for options that mean nothing, and for weights in blocks without allow_requantize; QUERN_UNSUPPORTED for a type
 * that is not written, and a model that no directory holds; QUERN_BAD_MODEL for a malformed model or matrix, and for numbers that a type cannot
 * hold; QUERN_IO, also for an output that exists, and QUERN_PERMISSION; QUERN_CANCELLED. */
QUERN_API quern_status quern_quantize(quern_runtime *runtime, const char *in, const char *out, const quern_quantize_options *options,
                                      quern_text **report);

typedef struct quern_imatrix_options {
  uint64_t struct_size;
  const char *dataset;             /* what the file says of the text, such as its path; null: "" */
  const char *const *inputs;       /* importance matrices of the same model, to which the text is added */
  uint64_t input_count;
  uint64_t most_chunks;            /* 0: the whole text */
  int (*progress)(void *user, uint64_t done, uint64_t total); /* tokens; may be null; nonzero ends it */
  void *progress_user;
} quern_imatrix_options;

/* Runs a text (text_size bytes) through a model on the runtime's devices, in chunks of 512 tokens that each begin with the model's BOS. It
 * writes how large the inputs of each weight were: the sum of squares for each column, and the count of tokens. The file is llama.cpp's importance
 * matrix as GGUF. The head is left out, as there. Tokens behind the last whole chunk are left out, unless there is no whole one. *report is one
 * JSON object: output, entries, tokens, chunks, chunk_tokens, datasets. `report` may be null. Errors: as quern_model_load; QUERN_INVALID_ARGUMENT for
 * a text without tokens; QUERN_BAD_MODEL for an input that is malformed or of another model; QUERN_IO and QUERN_PERMISSION; QUERN_CANCELLED. */
QUERN_API quern_status quern_imatrix(quern_runtime *runtime, const char *model, const char *text, uint64_t text_size,
                                     const quern_imatrix_options *options, const char *out, quern_text **report);

#ifdef __cplusplus
}
#endif

#endif
