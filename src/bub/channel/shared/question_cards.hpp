#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/envelope.hpp>
#include <cubepi/core/hitl_request.hpp>

// Questions in a chat (B24). The message of a question, its card, ends with its key (bub/questions.hpp), the data of its buttons contain
// the key, and the pipeline finds the question that has the key among those that wait in the session. A reply answers a question if it
// is to a card: a message with buttons, which only cards have, or one that was sent as a card lately. A text of the model that ends like
// a card is none. So buttons and replies work after a restart.
//
// A question with several parts or several choices is a form: a button of a choice changes its mark, and "Done" answers with what is
// marked. The marks are in the labels of the buttons, so a form works after a restart.

namespace bub::shared {

/// A button of a message. The service returns `data` when a user presses it.
struct Button {
    std::string label = {};
    std::string data = {};
    bool operator==(const Button&) const = default;
};
/// Rows of buttons.
using Buttons = std::vector<std::vector<Button>>;

/// The properties of a channel that its cards depend on.
struct CardRules {
    std::string channel = {};        ///< its name
    std::size_t max_units = 4096;    ///< of a message, in UTF-16 units
    std::string command_mark = ",";  ///< begins a command, such as /approve
};

/// The message of a question.
struct QuestionCard {
    std::string text = {};  ///< valid UTF-8
    Buttons buttons = {};
    /// The whole question, if `text` has only its beginning and its end. The chat must receive it before the card, as a file of this name:
    /// what is approved is what runs, so the user must be able to read it. Empty: the text has all of it.
    std::string whole = {};
    std::string whole_name = {};
};

/// Returns the card of a question: its text, its buttons, the ways to answer.
QuestionCard question_card(const Json& request, const CardRules& rules);
/// Returns the text for a user whose question is sent to the approvers.
std::string waiting_text(const Json& request, const CardRules& rules);
/// Returns the text in place of a card whose `whole` could not be sent. It cannot be answered where it is shown.
std::string unreadable_text(const Json& request, const CardRules& rules);
/// Returns the label that takes the place of the buttons, from AcceptedAnswer::answer.
std::string outcome_text(const Json& answer);

/// The end of a question's message.
struct QuestionMark {
    std::string key = {};
    bool approves = false;  ///< approve or deny, not a value
};

/// Returns the mark of the question in a message that question_card() has made.
std::optional<QuestionMark> question_in(std::string_view text);

/// Returns the answer of a reply to a card.
Answer answer_of_reply(const QuestionMark& question, std::string_view text);

/// Returns the answer of a button; `shown` are the buttons of its message. Returns nothing if the data are not those of question_card(),
/// or belong to a choice of a form (is_form_choice()).
std::optional<Answer> answer_of_button(const std::string& data, const Buttons& shown);

/// Returns the user who was asked, from the data of a button; empty: the button is of another kind of question, or of an older version.
std::string asked_user(const std::string& data);

/// Makes the card of a question about a tool call one for the private chat of an approver: with the name of the user who asks, and
/// a button that names the user's chat.
void address_to_approver(QuestionCard& card, const std::string& name, const std::string& chat);
/// Returns the chat whose question a card of address_to_approver() has; empty for any other message.
std::string asking_chat(const Buttons& shown);

/// A part of a question and one of its options, as in Answer::choices.
using Choice = std::pair<std::size_t, std::size_t>;

/// Returns true for the buttons of choices and for titles of parts.
bool is_form_choice(std::string_view data);
bool is_form_end(std::string_view data);
/// Changes the mark of a choice; in a part with one choice the others lose theirs.
void press(Buttons& buttons, const std::string& data);
std::vector<Choice> marked_choices(const Buttons& buttons);

/// A message that shows a question. `Id` is the platform's id of a chat and of a message.
template <class Id>
struct CardPlace {
    Id chat = {};
    Id id = {};
    auto operator<=>(const CardPlace&) const = default;
};

/// The cards that were sent lately, by the HitlRequest::request_id of their questions. Used on one executor.
template <class Id>
class SentCards {
public:
    using Place = CardPlace<Id>;

    /// Replaces an earlier card of the question in the same chat.
    void add(const std::string& request_id, Place card) {
        std::erase_if(cards_, [&](const auto& one) {
            return one.first == request_id && one.second.chat == card.chat;
        });
        cards_.emplace_back(request_id, std::move(card));
        if (cards_.size() > max_cards) cards_.pop_front();
    }
    std::vector<Place> of(const std::string& request_id) const {
        std::vector<Place> found;
        for (const auto& [id, card] : cards_)
            if (!request_id.empty() && id == request_id) found.push_back(card);
        return found;
    }
    bool contains(const Place& card) const {
        return std::any_of(cards_.begin(), cards_.end(),
                           [&card](const auto& one) { return one.second == card; });
    }

private:
    static constexpr std::size_t max_cards = 1000;
    std::deque<std::pair<std::string, Place>> cards_;  // newest last
};

/// The forms whose buttons were pressed lately. Their messages in the updates may lack the newest marks. Used on one executor.
template <class Id>
class OpenForms : public std::enable_shared_from_this<OpenForms<Id>> {
public:
    using Place = CardPlace<Id>;
    /// Shows these buttons in the message, with one attempt. Throws only if it is cancelled.
    using Show = std::function<Task<>(Place, Buttons)>;

    explicit OpenForms(Show show) : show_(std::move(show)) {}

    /// A button of a choice was pressed; `shown` are the buttons of the message. Returns true if show() must be called.
    bool press(const Place& place, const Buttons& shown, const std::string& data) {
        std::shared_ptr<Form>& form = forms_[place];
        if (!form) {
            form = std::make_shared<Form>();
            form->buttons = shown;
            order_.push_back(place);
        }
        Buttons changed = form->buttons;
        shared::press(changed, data);
        if (changed != form->buttons) form->is_shown = false;
        form->buttons = std::move(changed);
        const bool must_show = !form->is_shown && !form->is_showing;
        if (order_.size() > max_forms) {
            forms_.erase(order_.front());
            order_.pop_front();
        }
        return must_show;
    }
    /// Shows the newest marks: one call at a time, so that an older state does not arrive last.
    Task<> show(Place place) {
        const auto self = this->shared_from_this();
        const auto found = forms_.find(place);
        if (found == forms_.end()) co_return;
        const std::shared_ptr<Form> form = found->second;
        form->is_showing = true;
        while (!std::exchange(form->is_shown, true)) co_await show_(place, form->buttons);
        form->is_showing = false;
    }
    /// Returns the marked choices when "Done" was pressed. The form is not shown again, unless another button is pressed: the outcome
    /// takes its place.
    std::vector<Choice> finish(const Place& place, const Buttons& shown) {
        const auto form = forms_.find(place);
        if (form == forms_.end()) return marked_choices(shown);
        form->second->is_shown = true;
        return marked_choices(form->second->buttons);
    }

private:
    static constexpr std::size_t max_forms = 1000;
    struct Form {
        Buttons buttons;
        bool is_shown = true;
        bool is_showing = false;
    };

    const Show show_;
    std::map<Place, std::shared_ptr<Form>> forms_;
    std::deque<Place> order_;
};

}  // namespace bub::shared
