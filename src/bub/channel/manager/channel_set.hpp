#pragma once

#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <bub/channel/manager/manager_context.hpp>

namespace bub::detail {

/// The channels of a manager: which ones are enabled, and which of them run.
class ChannelSet {
public:
    explicit ChannelSet(ManagerContext& context) : context_(context) {}

    /// Returns the channels selected by the options, in start order. `handler` receives their messages; the plugins are
    /// asked once.
    Task<std::vector<std::shared_ptr<Channel>>> enabled(MessageHandler handler);
    /// Makes the channels known to find(), before they are started.
    void serve(const std::vector<std::shared_ptr<Channel>>& channels);
    /// Starts a channel within the limit of the options.
    Task<> start(std::shared_ptr<Channel> channel);
    void announce_stop() { stop_.request_stop(); }
    /// Stops the channels that were started, in reverse order. Problems are reported to the operator.
    Task<> stop();

    /// Returns null if no such channel is served.
    std::shared_ptr<Channel> find(const std::optional<std::string>& name) const;
    /// Returns the channel that receives the answers to `message`; null if it is not served.
    std::shared_ptr<Channel> find_output(const Envelope& message) const;

private:
    ManagerContext& context_;
    std::optional<std::vector<ProvidedChannel>> provided_;
    std::map<std::string, std::shared_ptr<Channel>, std::less<>> serving_;
    std::vector<std::shared_ptr<Channel>> started_;
    std::stop_source stop_;
};

}  // namespace bub::detail
