#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <cubepi/core/hitl_request.hpp>

#include "../terminal/prompter.hpp"
#include "../terminal/style.hpp"

namespace cubepi::app {

/// The reading of a typed answer.
struct TypedAnswer {
    Json value =
        nullptr;  ///< a text, or a list of texts for several choices; null: skipped, or not accepted
    std::string problem = {};  ///< why it was not accepted; empty: it was
};

/// Reads an answer: free text, or for a question with options the number, label or value of an option (several, separated
/// by commas, if the question allows it), or any text if an option allows input. An optional question is skipped by an
/// empty answer.
TypedAnswer read_typed_answer(const HitlQuestion& question, std::string_view text);

/// Asks the user the questions of the tool ask_user, and yes/no questions. Used on one executor.
class AskDialog {
public:
    /// `prompter` outlives the object.
    AskDialog(Prompter& prompter, Style style) : prompter_(prompter), style_(style) {}

    /// Returns the answers by key; empty if the input has ended.
    Task<std::optional<JsonObject>> ask(AskRequest request);
    /// Returns the answer; empty if the input has ended.
    Task<std::optional<bool>> confirm(ConfirmRequest request);

private:
    Task<std::optional<Json>> ask_one(const HitlQuestion& question);
    void show(const HitlQuestion& question) const;
    void show_title(TerminalView title, std::string_view text) const;

    Prompter& prompter_;
    Style style_;
};

}  // namespace cubepi::app
