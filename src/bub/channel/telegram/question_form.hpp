#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <bub/channel/telegram/message_sender.hpp>
#include <cubepi/core/hitl_request.hpp>

// Questions with several parts or several choices: a button of a choice changes its mark, and "Done" answers with what is marked. The
// marks are in the labels of the buttons, so a form works after a restart.

namespace bub::telegram {

using cubepi::JsonArray;
using cubepi::JsonObject;

/// Returns a button; a long label is shortened.
JsonObject callback_button(std::string_view label, std::string data);

/// Returns the buttons of a form. Empty if a part has no options, or all have too many.
JsonArray form_keyboard(const cubepi::AskRequest& ask, const std::string& key);

/// Returns true for the buttons of choices and for titles of parts.
bool is_form_choice(std::string_view data);
bool is_form_end(std::string_view data);
/// Changes the mark of a choice; in a part with one choice the others lose theirs.
void press(JsonArray& keyboard, const std::string& data);
/// Returns the marked choices: [[part, option], ...].
JsonArray marked_choices(const JsonArray& keyboard);

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
    JsonArray finish(std::int64_t chat, std::int64_t message_id, const JsonArray& shown);

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
