#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <bub/channel/telegram/message_sender.hpp>
#include <bub/envelope.hpp>

// Questions in a chat (B24). Nothing about an open question is remembered: its message ends with its key (bub/questions.hpp), the
// data of its buttons contain the key, and the pipeline finds the question that has the key among those that wait in the session. So
// buttons and replies work after a restart.

namespace bub::telegram {

/// Returns the message of a question: its text, its buttons, the ways to answer. Without buttons if `request` is not a question.
OutgoingText question_card(const Json& request);

/// The end of a question's message.
struct QuestionMark {
    std::string key = {};
    bool approves = false;  ///< approve or deny, not a value
};

/// Returns the mark of the question in a message that question_card() has made.
std::optional<QuestionMark> question_in(std::string_view text);

/// Makes the envelope an answer with a text.
void answer_with_text(const QuestionMark& question, const std::string& text, Envelope& envelope);

/// Makes the envelope the answer of a button; `keyboard` are the buttons of its message. Returns false if the data are not those of
/// question_card(), or belong to a choice of a form (question_form.hpp).
bool answer_with_button(const std::string& data, const JsonArray& keyboard, Envelope& envelope);

}  // namespace bub::telegram
