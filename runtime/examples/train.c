/* Trains an adapter for ten steps, merges it, and answers: cc train.c $(pkg-config --cflags --libs quern) -o train
 * ./train model.gguf train.jsonl out "Where is the key?" makes the folder out, with the adapter and merged.gguf in it. */
#include <quern.h>
#include <stdio.h>
#include <stdlib.h>

static int print_step(void *user, const quern_training_step *step) {
  (void)user;
  printf("step %d of %d: loss %.4f\n", (int)step->step, (int)step->steps, step->loss);
  return 0; /* anything else ends the run, with a checkpoint */
}

static int print_piece(void *user, const quern_token_event *event) {
  (void)user;
  fwrite(event->piece, 1, (size_t)event->piece_size, stdout);
  return fflush(stdout);
}

static quern_status train(quern_runtime *runtime, const char *model, const char *data, const char *out) {
  char path[600], output[600];
  const char *overrides[] = {path, output};
  quern_training_options options = {.struct_size = sizeof options, .overrides = overrides, .override_count = 2};
  quern_training_callbacks callbacks = {.struct_size = sizeof callbacks, .step = print_step};
  quern_training *settings = NULL;
  quern_trainer *trainer = NULL;
  uint32_t end = 0;

  snprintf(path, sizeof path, "datasets[0].path=%s", data);
  snprintf(output, sizeof output, "output_dir=%s", out);
  quern_status status = quern_training_open("{\"adapter\": \"lora\", \"learning_rate\": 0.001, \"max_steps\": 10, \"micro_batch_size\": 4,"
                                            " \"base_model\": \"given\", \"datasets\": [{\"path\": \"given\"}]}",
                                            &options, &settings);
  if (!status) status = quern_trainer_create(runtime, settings, model, NULL, &trainer);
  if (!status) status = quern_trainer_run(trainer, 0, &callbacks, &end);
  if (!status) status = quern_trainer_write_result(trainer);
  quern_trainer_release(trainer);
  quern_training_release(settings);
  return status;
}

static quern_status answer(quern_runtime *runtime, const char *model_file, const char *question) {
  quern_model *model = NULL;
  quern_session *session = NULL;
  quern_text *chat = NULL;
  int32_t ids[4096];
  quern_message message = {sizeof message, "user", question, 0};
  quern_request request = {.struct_size = sizeof request, .prompt = ids, .max_tokens = 64, .on_token = print_piece};

  quern_status status = quern_model_load(runtime, model_file, NULL, &model);
  if (!status) status = quern_session_create(model, NULL, &session);
  const quern_vocabulary *words = status ? NULL : quern_model_vocabulary(model);
  if (!status) status = quern_render_chat(words, &message, 1, 0, &chat);
  if (!status) status = quern_tokenize_rendered(words, chat, 0, ids, sizeof ids / sizeof *ids, &request.prompt_count);
  if (!status) status = quern_generate(session, &request, 1, NULL);
  quern_text_release(chat);
  quern_session_release(session);
  quern_model_release(model);
  return status;
}

int main(int argc, char **argv) {
  if (argc < 5) {
    fprintf(stderr, "usage: train MODEL.gguf DATA.jsonl FOLDER QUESTION\n");
    return 2;
  }
  char merged[600];
  quern_runtime *runtime = NULL;
  quern_merge_adapter adapter = {sizeof adapter, argv[3], 1};

  snprintf(merged, sizeof merged, "%s/merged.gguf", argv[3]);
  quern_status status = quern_runtime_create(NULL, &runtime);
  if (!status) status = train(runtime, argv[1], argv[2], argv[3]);
  if (!status) status = quern_merge(runtime, argv[1], &adapter, 1, NULL, merged);
  if (!status) status = answer(runtime, merged, argv[4]);
  if (status) fprintf(stderr, "%s: %s\n", quern_status_name(status), quern_last_error());
  quern_runtime_release(runtime);
  return status != QUERN_OK;
}
