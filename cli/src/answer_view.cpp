#include "answer_view.hpp"

#include "output.hpp"
#include "terminal_window.hpp"

namespace quern::cli {

AnswerView::AnswerView(bool plain) {
  if (!plain && window_can_draw()) view_.emplace(window_has_styles());
}

void AnswerView::follow(std::string_view text) {
  if (view_) view_->follow(text);
}

void AnswerView::add(std::string_view piece) {
  if (view_) draw_out(view_->add(piece, window_size().columns));
  else write_out(piece);
}

void AnswerView::end() {
  if (view_) draw_out(view_->end(window_size().columns));
  else write_out("\n");
}

}  // namespace quern::cli
