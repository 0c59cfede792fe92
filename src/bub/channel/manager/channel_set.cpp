#include <bub/channel/manager/channel_set.hpp>

#include <algorithm>
#include <functional>
#include <utility>

#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/core/timeout.hpp>

namespace bub::detail {

namespace {

bool has(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

/// The channels that ChannelManagerOptions::channels selects.
class Selection {
public:
    explicit Selection(const std::vector<std::string>& words) {
        for (const std::string& word : words)
            add(std::string(cubepi::detail::trimmed(word, " \t")));
    }
    bool excludes(const Channel& channel) const {
        return !channel.enabled() || has(excluded_, channel.name());
    }
    bool includes(const Channel& channel) const {
        if (excludes(channel)) return false;
        return has(named_, channel.name()) ||
               (all_ && channel.role() != ChannelRole::user_interface);
    }

private:
    void add(const std::string& name) {
        if (name.empty()) return;
        if (name == "all") {
            all_ = true;
        } else if (name.starts_with('!')) {
            excluded_.emplace_back(
                cubepi::detail::trimmed(std::string_view(name).substr(1), " \t"));
        } else {
            named_.push_back(name);
        }
    }

    bool all_ = false;
    std::vector<std::string> named_;
    std::vector<std::string> excluded_;
};

}  // namespace

Task<std::vector<std::shared_ptr<Channel>>> ChannelSet::enabled(MessageHandler handler) {
    if (!provided_) provided_ = co_await context_.framework.collect_channels(std::move(handler));
    const Selection selection(context_.options.channels);
    std::vector<std::shared_ptr<Channel>> chosen;
    bool serves = false;
    for (const ProvidedChannel& provided : *provided_) {
        if (!selection.includes(*provided.channel)) continue;
        chosen.push_back(provided.channel);
        serves = serves || provided.channel->role() != ChannelRole::lifecycle;
    }
    // Lifecycle channels are started along with channels that have messages.
    for (const ProvidedChannel& provided : *provided_) {
        const Channel& channel = *provided.channel;
        if (!serves || channel.role() != ChannelRole::lifecycle || selection.excludes(channel))
            continue;
        if (std::find(chosen.begin(), chosen.end(), provided.channel) == chosen.end())
            chosen.push_back(provided.channel);
    }
    co_return chosen;
}

void ChannelSet::serve(const std::vector<std::shared_ptr<Channel>>& channels) {
    for (const std::shared_ptr<Channel>& channel : channels) serving_[channel->name()] = channel;
}

Task<> ChannelSet::start(std::shared_ptr<Channel> channel) {
    std::string what = "start of channel " + channel->name();
    Task<> starting = channel->start(stop_.get_token());
    co_await cubepi::with_timeout(context_.clock(), context_.options.start_limit,
                                  std::move(starting), std::move(what));
    started_.push_back(std::move(channel));
}

namespace {

Task<> stop_channel(std::shared_ptr<Channel> channel, cubepi::Clock& clock,
                    std::chrono::nanoseconds limit) {
    std::string what = "stop of channel " + channel->name();
    Task<> stopping = channel->stop();
    co_await cubepi::with_timeout(clock, limit, std::move(stopping), std::move(what));
}

}  // namespace

Task<> ChannelSet::stop() {
    while (!started_.empty()) {
        const std::shared_ptr<Channel> channel = std::move(started_.back());
        started_.pop_back();
        Task<> stopping = stop_channel(channel, context_.clock(), context_.options.stop_limit);
        const cubepi::Outcome<> stopped = co_await cubepi::outcome_of(std::move(stopping));
        if (!stopped) {
            context_.warn(
                "channel.stop_failed",
                {{"channel", channel->name()}, {"error", cubepi::logged_error(stopped.failure())}},
                "channel " + channel->name() + " did not stop: " + describe(stopped.failure()));
        }
        serving_.erase(channel->name());
    }
    serving_.clear();
}

std::shared_ptr<Channel> ChannelSet::find(const std::optional<std::string>& name) const {
    if (!name) return nullptr;
    const auto found = serving_.find(*name);
    return found == serving_.end() ? nullptr : found->second;
}

std::shared_ptr<Channel> ChannelSet::find_output(const Envelope& message) const {
    return find(message.output_channel ? message.output_channel : message.channel);
}

}  // namespace bub::detail
