#pragma once

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <bub/channel.hpp>
#include <cubepi/core/task_scope.hpp>

#include "chat_actions.hpp"
#include "chat_commands.hpp"
#include "terminal/chat_view.hpp"
#include "terminal/console.hpp"

namespace cubepi::app {

/// The channel `cli`: the console of `cubepi chat` as a way in and out of the pipeline. What is entered while a turn runs
/// steers it, or waits for its own turn; Esc ends the turn, and what it did not hear goes back into the prompt.
class CliChannel final : public bub::Channel {
public:
    struct Parts {
        std::shared_ptr<Console> console = {};
        ChatView* view = nullptr;  ///< outlives the channel
        bub::MessageHandler handler = {};
        /// Entered before anything that is typed; empty: nothing.
        std::string first_prompt = {};
        /// What the person says, as a message for the handler.
        std::function<bub::Envelope(std::string text)> message = {};
        /// An id for an input that no other input has, in this process or another.
        std::function<std::string()> new_id = {};
        /// Ends the turn and drops what waits behind it.
        std::function<Task<>()> abort = {};
        /// The person wants to leave. Any number of times.
        std::function<void()> leave = {};
        /// Called for each event of a turn after it is shown. Optional.
        std::function<void(const bub::StreamEvent& event)> shown = {};
        /// Commands that concern the session; outlives the channel.
        ChatActions* actions = nullptr;
        /// A failed turn in words for people.
        std::function<std::string(const std::exception_ptr& failure)> explain = {};
    };
    explicit CliChannel(Parts parts);
    ~CliChannel() override;

    const std::string& name() const noexcept override { return name_; }
    bub::ChannelRole role() const noexcept override { return bub::ChannelRole::user_interface; }
    Task<> start(std::stop_token stopping) override;
    Task<> stop() override;
    Task<> send(bub::Envelope message) override;
    bub::EventStream stream_events(const bub::Envelope& message, bub::EventStream stream) override;
    Task<std::optional<bub::AdmitDecision>> admit_message(std::string session_id,
                                                          const bub::Envelope& message,
                                                          bub::TurnSnapshot turn) override;

private:
    class Turn;
    /// Something that was entered and that no turn has heard yet.
    struct Unheard {
        std::string id = {};  ///< of the user message that it becomes
        std::string text = {};
        std::string typed = {};  ///< what the user typed for `text`
        bool pasted = false;     ///< its beginning
        bool trusted = true;     ///< typed at the prompt, where comma commands are accepted (B11)
        bool later = false;
        bool echoed = false;
    };

    Task<> listen();
    Task<> deliver(bub::Envelope message);
    Task<> abort_turn();
    void on_interrupt();
    Task<> on_line(std::string text, bool pasted);
    Task<> on_action(ChatAction action, std::string argument);
    void enter_later(std::string argument);
    void enter(Unheard unheard);
    void show(const bub::StreamEvent& event, bool command);
    void on_turn_begun(const std::string& id);
    void on_turn_over(const std::exception_ptr& error);
    void heard(const std::string& id);
    void hand_back();
    void show_waiting();

    std::string name_ = "cli";
    Parts parts_;
    Console& console_;
    ChatView& view_;
    std::unique_ptr<BackgroundScope> work_;
    std::deque<Unheard> unheard_;
    bool running_ = false;
    bool stopping_ = false;
    bool asked_to_leave_ = false;
    bool explained_ = false;  // the failure of the last turn was shown
};

}  // namespace cubepi::app
