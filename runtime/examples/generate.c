/* Streams an answer: cc generate.c $(pkg-config --cflags --libs quern) -o generate && ./generate model.gguf "Why is the sky blue?"
 * A missing file, a truncated one or too little memory is a status and a sentence; nothing ends the process. */
#include <quern.h>
#include <stdio.h>
#include <stdlib.h>

static int print_piece(void *user, const quern_token_event *event) {
  (void)user;
  fwrite(event->piece, 1, (size_t)event->piece_size, stdout);
  return fflush(stdout); /* a closed pipe cancels the answer */
}

int main(int argc, char **argv) {
  quern_runtime *runtime = NULL;
  quern_model *model = NULL;
  quern_session *session = NULL;
  quern_text *chat = NULL;
  int32_t *ids = NULL;
  uint64_t capacity = 0, count = 0;
  quern_message message = {sizeof message, "user", argc > 2 ? argv[2] : "Who are you?", 0};
  quern_request request = {.struct_size = sizeof request, .max_tokens = 256, .on_token = print_piece};

  quern_status status = quern_runtime_create(NULL, &runtime);
  if (!status) status = quern_model_load(runtime, argc > 1 ? argv[1] : "model.gguf", NULL, &model);
  if (!status) status = quern_session_create(model, NULL, &session);
  const quern_vocabulary *words = status ? NULL : quern_model_vocabulary(model);
  if (!status) status = quern_render_chat(words, &message, 1, 0, &chat);
  if (!status) status = quern_tokenize_rendered(words, chat, 0, NULL, 0, &capacity);
  if (!status && !(ids = malloc((size_t)capacity * sizeof *ids))) status = QUERN_HOST_OUT_OF_MEMORY;
  if (!status) status = quern_tokenize_rendered(words, chat, 0, ids, capacity, &count);
  request.prompt = ids;
  request.prompt_count = count;
  if (!status) status = quern_generate(session, &request, 1, NULL);

  if (status) fprintf(stderr, "%s: %s\n", quern_status_name(status), quern_last_error());
  free(ids);
  quern_text_release(chat);
  quern_session_release(session);
  quern_model_release(model);
  quern_runtime_release(runtime);
  return status != QUERN_OK;
}
