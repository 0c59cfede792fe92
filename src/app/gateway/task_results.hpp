#pragma once

#include <memory>

#include <bub/channel/channel_manager.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::app {

/// Passes the messages whose turns report the results of sub-agents in the background to the channel manager of a gateway, as if their
/// channels had received them (D127). Created and destroyed on the executor of the manager.
class TaskResults {
public:
    TaskResults(Executor executor, bub::WarningHandler on_warning);
    ~TaskResults();
    TaskResults(const TaskResults&) = delete;
    TaskResults& operator=(const TaskResults&) = delete;

    /// Must be called before the first turn. `manager` must outlive this object.
    void connect(bub::ChannelManager& manager);
    /// Thread-safe. A message that the manager does not accept is dropped: the next turn of its session has the results.
    void deliver(bub::Envelope message) const;

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace cubepi::app
