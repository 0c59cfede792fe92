#include <cubepi/agent/run/active_run.hpp>

namespace cubepi::detail {

[[noreturn]] void throw_busy(const Agent::Impl& impl) {
    throw Error(ErrorCode::busy,
                "the agent is already processing a prompt (run " + impl.state.active_run_id.str() +
                    "): queue the message with steer() or follow_up(), await the run's end with "
                    "wait_for_idle(), or end it with abort()");
}

ActiveRun::ActiveRun(Agent::Impl& impl, const SharedString& run_id) : impl_(impl) {
    const SerialSection here(impl_.serial);
    if (impl_.state.is_streaming) throw_busy(impl_);
    token_ = impl_.inbox.begin_run(run_id);
    impl_.state.is_streaming = true;
    impl_.state.streaming_message = PartialMessage();
    impl_.state.error_message = {};
    impl_.state.active_run_id = run_id;
    impl_.state.last_outcome = LastOutcome::none;
}

ActiveRun::~ActiveRun() {
    const SerialSection here(impl_.serial);
    impl_.inbox.end_run();
    impl_.state.is_streaming = false;
    impl_.state.streaming_message = PartialMessage();
    impl_.state.pending_tool_calls = std::vector<SharedString>();
    impl_.state.active_run_id = {};
    if (impl_.state.last_outcome == LastOutcome::none) {
        impl_.state.last_outcome = LastOutcome::abandoned;
    }
    if (impl_.idle) impl_.idle->pulse();
}

void ActiveRun::set_run_id(const SharedString& run_id) {
    const SerialSection here(impl_.serial);
    impl_.inbox.set_run_id(run_id);
    impl_.state.active_run_id = run_id;
}

}  // namespace cubepi::detail
