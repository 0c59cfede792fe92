#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel.hpp>
#include <cubepi/core/task_scope.hpp>

#include "../chat_commands.hpp"
#include "../mcp/mcp_offers.hpp"
#include "../terminal/chat_view.hpp"
#include "../terminal/console.hpp"
#include "attachments.hpp"
#include "conversation.hpp"

namespace cubepi::app {

/// The channel `cli`: connects the console of `cubepi chat` to the pipeline. An input entered while a turn runs steers the
/// turn or waits for its own turn. Esc cancels the turn; the inputs that it did not accept return to the prompt.
class CliChannel final : public bub::Channel {
public:
    struct Parts {
        std::shared_ptr<Console> console = {};
        ChatView* view = nullptr;              ///< of `console`; outlives the channel
        Conversation* conversation = nullptr;  ///< outlives the channel
        bub::MessageHandler handler = {};
        /// Entered before the first typed input; empty: none.
        std::string first_prompt = {};
        /// Pictures that go with the first prompt.
        Attachments pictures = {};
        /// Returns an id for an input, unique across processes.
        std::function<std::string()> new_id = {};
        /// Cancels the turn and drops the waiting messages.
        std::function<Task<>()> abort = {};
        /// Leaves this session for another one of this directory, by its name.
        std::function<void(std::string name)> switch_to = {};
        /// Called when the user wants to leave; may be called repeatedly.
        std::function<void()> leave = {};
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

    /// The pictures that no prompt has taken.
    Attachments take_pictures() { return std::exchange(parts_.pictures, {}); }
    /// Enters a message whose turn reports the results of sub-agents in the background.
    void receive_results(bub::Envelope message);

private:
    class Turn;
    /// An input that no turn has accepted yet.
    struct Pending {
        std::string id = {};  ///< of the user message that it becomes
        std::string text = {};
        std::string typed = {};    ///< what the user typed for `text`
        std::string entered = {};  ///< the whole input, if `typed` is a part of it
        std::vector<bub::MediaItem> media = {};
        std::optional<std::string> argument =
            {};                   ///< of the template that is `text`; absent: it is none
        std::string remark = {};  ///< the files that are attached; empty: none
        std::optional<Attachments> pictures = {};  ///< of Parts; absent: none
        bool pasted = false;                       ///< its beginning
        bool has_paste = false;                    ///< a part of it
        bool trusted = true;  ///< typed at the prompt, where comma commands are accepted (B11)
        bool later = false;
        bool echoed = false;
    };

    Task<> listen();
    Task<> ask_open_questions();
    Task<> ask_to_carry_out();
    void start_rewind(std::string argument);
    Task<> rewind(std::string argument);
    Task<> deliver(bub::Envelope message);
    Task<> abort_turn();
    void on_interrupt(std::uint64_t question);
    Task<> on_line(ConsoleInput line);
    Task<bool> fill_in_prompt(Pending& pending);
    Task<> attach_files_to(Pending& pending);
    Task<> attach_resources_to(Pending& pending, Attachments attached);
    void echo(const Pending& pending);
    Task<> on_action(ChatAction action, std::string argument);
    void set_up_prompt();
    void want_files();
    Task<> list_files();
    Task<> list_skills();
    Task<> list_server_prompts();
    Task<> edit_elsewhere();
    Task<> ask_aside(std::string question);
    ChatAbilities abilities() const;
    Task<> show_title();
    Task<> resume(std::string wanted);
    Task<> pick_model();
    Task<> pick_effort();
    Task<> choose_theme(std::string name);
    Task<std::string> picked_text(PickList list);
    Task<> pick_argument(std::string command, PickList list);
    void show_failure(const std::exception_ptr& failure);
    void enter_later(std::string argument, const ConsoleInput& line);
    void enter(Pending pending);
    void add_pictures(Pending& pending);
    void show(const bub::StreamEvent& event, const bub::Envelope& message);
    void on_turn_begun(const std::string& id, bool is_command);
    void on_turn_over(const std::exception_ptr& error, bool is_prompt);
    void on_silent_turn_over();
    void on_accepted(const std::string& id);
    void hand_back(Pending& pending);
    void hand_back();
    void show_waiting();

    std::string name_ = "cli";
    Parts parts_;
    Console& console_;
    ChatView& view_;
    Conversation& conversation_;
    PromptTemplates templates_;
    McpResourceOffers resources_;
    std::unique_ptr<BackgroundScope> work_;
    std::deque<Pending> pending_;
    Pending begun_;  // the input of the last turn
    bool running_ = false;
    std::optional<std::stop_source> asking_;  // a question between two turns
    std::optional<std::stop_source> aside_;   // a side question
    bool suspended_ = false;                  // the turn ended with questions
    bool has_shown_ = false;                  // the turn has shown something
    bool stopping_ = false;
    bool asked_to_leave_ = false;
    bool listing_files_ = false;
    bool leaving_ = false;    // for another session
    bool explained_ = false;  // the failure of the last turn was shown
};

}  // namespace cubepi::app
