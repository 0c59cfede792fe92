#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/channel/telegram/message_sender.hpp>
#include <bub/envelope.hpp>
#include <cubepi/core/hitl_request.hpp>

// Questions in a chat (B24). The message of a question, its card, ends with its key (bub/questions.hpp), the data of its buttons contain
// the key, and the pipeline finds the question that has the key among those that wait in the session. A reply answers a question if it
// is to a card: a message with buttons, which only cards have, or one that was sent as a card lately. A text of the model that ends like
// a card is none. So buttons and replies work after a restart.
//
// A question with several parts or several choices is a form: a button of a choice changes its mark, and "Done" answers with what is
// marked. The marks are in the labels of the buttons, so a form works after a restart.

namespace bub::telegram {

/// A part of a question and one of its options, as in Answer::choices.
using Choice = std::pair<std::size_t, std::size_t>;

/// Returns the beginning of a text, of at most so many UTF-16 units and a mark; broken UTF-8 is replaced.
std::string shortened(std::string_view text, std::size_t units);

/// Returns the message of a question: its text, its buttons, the ways to answer. Without buttons if `request` is not a question.
OutgoingText question_card(const Json& request);

/// The end of a question's message.
struct QuestionMark {
    std::string key = {};
    bool approves = false;  ///< approve or deny, not a value
};

/// Returns the mark of the question in a message that question_card() has made.
std::optional<QuestionMark> question_in(std::string_view text);

/// A message that shows a question.
struct SentCard {
    std::int64_t chat = 0;
    std::int64_t id = 0;
    bool operator==(const SentCard&) const = default;
};

/// The cards that were sent lately, by the HitlRequest::request_id of their questions. Used on one executor.
class SentCards {
public:
    /// Replaces an earlier card of the question in the same chat.
    void add(const std::string& request_id, SentCard card);
    std::vector<SentCard> of(const std::string& request_id) const;
    bool contains(SentCard card) const;

private:
    static constexpr std::size_t max_cards = 1000;
    std::deque<std::pair<std::string, SentCard>> cards_;  // newest last
};

/// Makes the envelope an answer with a text.
void answer_with_text(const QuestionMark& question, const std::string& text, Envelope& envelope);

/// Makes the envelope the answer of a button; `keyboard` are the buttons of its message. Returns false if the data are not those of
/// question_card(), or belong to a choice of a form (is_form_choice()).
bool answer_with_button(const std::string& data, const JsonArray& keyboard, Envelope& envelope);

/// Returns the user who was asked, from the data of a button; 0: the button is of another kind of question, or of an older version.
std::int64_t asked_user(const std::string& data);

/// Makes the card of a question about a tool call one for the private chat of an approver: with the name of the user who asks, and
/// a button that names the user's chat.
void address_to_approver(OutgoingText& card, const std::string& name, std::int64_t chat);
/// Returns the chat whose question a card of address_to_approver() has; 0 for any other message.
std::int64_t asking_chat(const JsonArray& keyboard);

/// Returns a button; a long label is shortened.
JsonObject callback_button(std::string_view label, std::string data);

/// Returns the buttons of a form. Empty if a part has no options, or all have too many.
JsonArray form_keyboard(const cubepi::AskRequest& ask, const std::string& key);

/// Returns true for the buttons of choices and for titles of parts.
bool is_form_choice(std::string_view data);
bool is_form_end(std::string_view data);
/// Changes the mark of a choice; in a part with one choice the others lose theirs.
void press(JsonArray& keyboard, const std::string& data);
/// Returns the marked choices.
std::vector<Choice> marked_choices(const JsonArray& keyboard);

/// The forms whose buttons were pressed lately. Their messages in the updates may lack the newest marks. Used on one executor.
class OpenForms : public std::enable_shared_from_this<OpenForms> {
public:
    explicit OpenForms(std::shared_ptr<const TelegramApi> api) : api_(std::move(api)) {}

    /// A button of a choice was pressed; `shown` are the buttons of the message. Returns true if show() must be called.
    bool press(std::int64_t chat, std::int64_t message_id, const JsonArray& shown,
               const std::string& data);
    /// Shows the newest marks in the message.
    Task<> show(std::int64_t chat, std::int64_t message_id);
    /// Returns the marked choices when "Done" was pressed. The form is not shown again, unless another button is pressed: the outcome
    /// takes its place.
    std::vector<Choice> finish(std::int64_t chat, std::int64_t message_id, const JsonArray& shown);

private:
    struct Form {
        JsonArray keyboard;
        bool is_shown = true;
        bool is_showing = false;
    };
    using Place = std::pair<std::int64_t, std::int64_t>;

    const std::shared_ptr<const TelegramApi> api_;
    std::map<Place, std::shared_ptr<Form>> forms_;
    std::deque<Place> order_;
};

}  // namespace bub::telegram
