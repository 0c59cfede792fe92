#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <bub/detail/framework_impl.hpp>

namespace bub::detail {

/// The stages of one turn, and what they hand on. Lives in the frame of process_inbound.
class Turn {
public:
    Turn(Framework& owner, Framework::Impl& impl, PluginList asked,
         std::shared_ptr<Envelope> message, bool wants_stream);

    Task<> load_state();
    /// Asks the model and then, whatever came of it, save_state; throws what the stage failed with.
    Task<> run_model();
    Task<> render_outbound();
    /// Each envelope goes to all plugins before the next one does.
    Task<> dispatch_outbound();
    bool has_something_open() const noexcept;
    /// True when this is the cancellation of the turn, seen for the first time: shield() then.
    bool is_cancelled_by(const std::exception_ptr& failure) noexcept;
    /// Puts away what load_state opened, and gives what the turn ends with: `failure`, or the cancellation that came
    /// meanwhile.
    Task<std::exception_ptr> close(std::exception_ptr failure);

    Framework& framework;
    Framework::Impl& kernel;
    PluginList plugins;
    std::shared_ptr<Envelope> inbound;
    bool streaming;
    TurnResult result;

private:
    Task<bool> ask_stream(const Plugin& plugin);
    Task<> take_text(std::string text);
    Task<> consume(EventStream stream);
    /// Throws when a plugin returned no stream to a non-streaming caller (B1). Called when no plugin answered.
    void require_streams() const;
    Task<> fall_back();
    Task<std::exception_ptr> save_state(std::exception_ptr failure);
    /// Keeps what a plugin has answered on the tape (B20). `whole`: it is all of the answer.
    Task<> record(bool whole);
    Task<> record_input(std::shared_ptr<TapeStore> store, std::string tape, bool whole);
    /// True when the tape has what was answered to this inbound when it came before (D42).
    Task<bool> answer_again();
    /// The session's tape; empty: it has none.
    std::string tape_of_session() const;
    /// Awaits what a hook does after the turn's end: only for a grace period when the turn was cancelled.
    Task<> settle(Task<> task, std::string what);

    bool cancelled_ = false;
    bool answered_ = false;
    std::string
        without_stream_;    ///< first plugin that returned no stream to a non-streaming caller
    std::string input_id_;  ///< empty: the inbound has no name
};

}  // namespace bub::detail
