/* The part of Quern's C API that fine-tunes a model: adapters by LoRA and QLoRA, on the devices that also generate. In libquern.so.1.
 *
 * Nouns. A training is a checked set of settings. A trainer is a run: it owns the base model's weights, what is trained, and the examples.
 * The conventions of quern.h hold for every function here: statuses and quern_last_error(), struct_size, handles, threads.
 *
 * A settings file has one spelling for each setting (docs/training.md lists them). The library takes it as JSON: a program turns YAML into
 * JSON, and may say where each key stood, so that errors name file and line. */
#ifndef QUERN_TRAINING_H
#define QUERN_TRAINING_H

#include "quern.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Settings ------------------------------------------------------------------------------------------ */

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
} quern_training_info;

/* Strings belong to the training. */
QUERN_API quern_status quern_training_get_info(const quern_training *training, quern_training_info *out);

/* All settings as YAML, each with its value; read again they mean the same. */
QUERN_API quern_status quern_training_yaml(const quern_training *training, quern_text **out);
/* A sentence for each key that was given and changes nothing, one a line; empty text where there is none. */
QUERN_API quern_status quern_training_notes(const quern_training *training, quern_text **out);
/* A commented settings file for a new run of `model`; `kind` is "lora", "qlora" or "full". Errors: QUERN_INVALID_ARGUMENT. */
QUERN_API quern_status quern_training_starter(const char *kind, const char *model, quern_text **out);

/* ---- Runs ---------------------------------------------------------------------------------------------- */

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
  uint64_t memory_bytes; /* that the trainer holds on its devices */
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
} quern_training_callbacks;

/* Reads the base (a path; a name of the hub is the caller's to find) and the data, compiles, loads the weights, and goes on from a
 * checkpoint where the settings ask for it. The runtime's devices compute. `base` may be null: base_model of the settings. `callbacks` may
 * be null; only `warning` is called here. Errors: as quern_model_load; QUERN_INVALID_ARGUMENT for settings that this base cannot follow, and
 * for a checkpoint of a run with other settings, data or base; QUERN_BAD_MODEL for data that cannot be read, with file and line;
 * QUERN_DOES_NOT_FIT before anything large is allocated. */
QUERN_API quern_status quern_trainer_create(quern_runtime *runtime, const quern_training *training, const char *base,
                                            const quern_training_callbacks *callbacks, quern_trainer **out);
QUERN_API void quern_trainer_release(quern_trainer *trainer);

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

/* What the run has before it and behind it, as one JSON object: device, base, step, steps, steps_of_epoch, micro_batches_of_epoch,
 * trained_parameters, memory_bytes, "train" and "validation" (examples, tokens, labels, longest, dropped_long, dropped_unlabelled,
 * bad_lines). One at a time. */
QUERN_API quern_status quern_trainer_json(quern_trainer *trainer, quern_text **out);
/* Example `index` of the training data as one JSON object: source, ids, weights (of each id as a target; 0: it does not count), and
 * pieces: [{text, counts}]. One at a time. Errors: QUERN_NOT_FOUND. */
QUERN_API quern_status quern_trainer_example_json(quern_trainer *trainer, uint64_t index, quern_text **out);

#ifdef __cplusplus
}
#endif

#endif
