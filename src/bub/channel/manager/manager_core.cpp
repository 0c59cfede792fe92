#include <bub/channel/manager/manager_core.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/timeout.hpp>

// The lifecycle of the manager: channels are selected, started, served and stopped; outbound messages are routed.

namespace bub::detail {

using cubepi::Error;
using cubepi::ErrorCode;

namespace {

std::string trimmed(const std::string& text) {
    const std::size_t begin = text.find_first_not_of(" \t");
    if (begin == std::string::npos) return {};
    return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

struct Selection {
    bool all = false;
    std::vector<std::string> named = {};
    std::vector<std::string> excluded = {};
};

Selection read_selection(const std::vector<std::string>& words) {
    Selection selection;
    for (const std::string& word : words) {
        const std::string name = trimmed(word);
        if (name.empty()) continue;
        if (name == "all") {
            selection.all = true;
        } else if (name.starts_with('!')) {
            selection.excluded.push_back(trimmed(name.substr(1)));
        } else {
            selection.named.push_back(name);
        }
    }
    return selection;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

Task<> hand_in(std::shared_ptr<ManagerCore> core, Envelope message) {
    if (!core) throw Error(ErrorCode::invalid_state, "the channel manager is gone");
    co_await core->receive(std::move(message));
}

Task<> wait_for_ever() {
    cubepi::AsyncEvent never;
    co_await never.wait();
}

}  // namespace

ManagerCore::ManagerCore(Framework& framework, ChannelManagerOptions options)
    : framework_(framework), options_(std::move(options)) {}

void ManagerCore::warn(const std::string& text) const {
    if (options_.on_warning) options_.on_warning(text);
}

Task<std::vector<std::shared_ptr<Channel>>> ManagerCore::enabled_channels() {
    if (!provided_) {
        // Channels hold the handler, and the core holds the channels.
        MessageHandler handler = [weak = weak_from_this()](Envelope message) {
            return hand_in(weak.lock(), std::move(message));
        };
        provided_ = co_await framework_.collect_channels(std::move(handler));
    }
    const Selection selection = read_selection(options_.channels);
    std::vector<std::shared_ptr<Channel>> chosen;
    bool serves = false;
    const auto usable = [&](const Channel& channel) {
        return channel.enabled() && !has(selection.excluded, channel.name());
    };
    for (const ProvidedChannel& provided : *provided_) {
        const Channel& channel = *provided.channel;
        const bool wanted = has(selection.named, channel.name()) ||
                            (selection.all && channel.role() != ChannelRole::user_interface);
        if (!wanted || !usable(channel)) continue;
        chosen.push_back(provided.channel);
        serves = serves || channel.role() != ChannelRole::lifecycle;
    }
    // Lifecycle channels are started along with channels that have messages.
    for (const ProvidedChannel& provided : *provided_) {
        const Channel& channel = *provided.channel;
        const bool there =
            std::find(chosen.begin(), chosen.end(), provided.channel) != chosen.end();
        if (serves && !there && channel.role() == ChannelRole::lifecycle && usable(channel))
            chosen.push_back(provided.channel);
    }
    co_return chosen;
}

Task<> ManagerCore::run(std::stop_token stop) {
    const std::shared_ptr<ManagerCore> self = shared_from_this();
    if (std::exchange(ran_, true))
        throw Error(ErrorCode::invalid_state, "a channel manager runs once; make another one");
    std::vector<std::shared_ptr<Channel>> channels = co_await enabled_channels();
    if (channels.empty()) {
        throw Error(ErrorCode::not_found,
                    "no channel is enabled: name one that is configured (cubepi hooks lists them)");
    }
    const cubepi::Executor executor = co_await cubepi::this_executor;
    work_ = std::make_unique<cubepi::BackgroundScope>(
        executor, [this](std::exception_ptr failure) { warn(describe(failure)); });
    framework_.bind_router(self);
    std::exception_ptr failure;
    try {
        const std::stop_callback forward(std::move(stop), [this] { stop_.request_stop(); });
        co_await cubepi::cancel_on(stop_.get_token(), serve(std::move(channels)));
    } catch (...) {
        failure = std::current_exception();
    }
    co_await cubepi::shield();
    const bool asked_to = stop_.stop_requested() && cubepi::is_cancellation(failure);
    co_await shut_down();
    framework_.bind_router(nullptr);
    co_await cubepi::unshield();
    if (failure && !asked_to) std::rethrow_exception(failure);
}

Task<> ManagerCore::serve(std::vector<std::shared_ptr<Channel>> channels) {
    inbox_ = co_await framework_.steering_inbox();
    // A channel may submit its first message from inside start().
    for (const std::shared_ptr<Channel>& channel : channels) serving_[channel->name()] = channel;
    open_ = true;
    co_await take_up_inbounds();
    cubepi::Clock& clock = *framework_.runtime()->clock;
    for (const std::shared_ptr<Channel>& channel : channels) {
        std::string what = "start of channel " + channel->name();
        Task<> starting = channel->start(channels_stop_.get_token());
        co_await cubepi::with_timeout(clock, options_.start_limit, std::move(starting),
                                      std::move(what));
        started_.push_back(channel);
    }
    co_await take_up_deliveries();
    ready_.set();
    changed();
    co_await wait_for_ever();
}

void ManagerCore::drop_what_waits() {
    std::size_t dropped = 0;
    std::size_t kept = 0;
    const auto count = [&](const Receipts& receipts) { ++(receipts.empty() ? dropped : kept); };
    for (auto& [key, lane] : lanes_) {
        if (lane->debouncer) {
            const std::size_t collected = lane->debouncer->clear();
            (lane->collected.empty() ? dropped : kept) += collected;
            lane->collected.clear();
        }
        for (Arrival& arrival : lane->arrivals) {
            count(arrival.receipts);
            arrival.admission->failure = cubepi::make_cancelled();
            arrival.admission->over.set();
        }
        lane->arrivals.clear();
    }
    for (auto& [id, session] : sessions_) {
        for (const Waiting& waiting : session->waiting) count(waiting.receipts);
        session->waiting.clear();
    }
    waiting_ = 0;
    if (dropped > 0) warn(std::to_string(dropped) + " messages were still waiting at the end");
    if (kept > 0) warn(std::to_string(kept) + " messages wait for the next start");
}

Task<> ManagerCore::shut_down() {
    open_ = false;
    channels_stop_.request_stop();
    drop_what_waits();
    co_await work_->close();
    lanes_.clear();
    sessions_.clear();
    // The router is still bound, so that final messages of a channel can be shown.
    cubepi::Clock& clock = *framework_.runtime()->clock;
    while (!started_.empty()) {
        const std::shared_ptr<Channel> channel = std::move(started_.back());
        started_.pop_back();
        try {
            std::string what = "stop of channel " + channel->name();
            Task<> stopping = channel->stop();
            co_await cubepi::with_timeout(clock, options_.stop_limit, std::move(stopping),
                                          std::move(what));
        } catch (...) {
            warn("channel " + channel->name() +
                 " did not stop: " + describe(std::current_exception()));
        }
        serving_.erase(channel->name());
    }
    serving_.clear();
    changed();
}

std::shared_ptr<Channel> ManagerCore::find_channel(const std::optional<std::string>& name) const {
    if (!name) return nullptr;
    const auto found = serving_.find(*name);
    return found == serving_.end() ? nullptr : found->second;
}

std::shared_ptr<Channel> ManagerCore::output_channel(const Envelope& message) const {
    return find_channel(message.output_channel ? message.output_channel : message.channel);
}

EventStream ManagerCore::wrap_stream(const Envelope& message, EventStream stream) {
    const std::shared_ptr<Channel> channel = output_channel(message);
    return channel ? channel->stream_events(message, std::move(stream)) : std::move(stream);
}

Task<bool> ManagerCore::dispatch_output(Envelope message) {
    // Keeps the channel alive while it sends.
    const std::shared_ptr<Channel> channel = output_channel(message);
    if (!channel) co_return false;
    if (is_recorded(*channel)) {
        co_await send_recorded(channel, std::move(message));
    } else {
        co_await channel->send(std::move(message));
    }
    co_return true;
}

Task<std::optional<AdmitDecision>> ManagerCore::admit_message(std::string session_id,
                                                              const Envelope& message,
                                                              TurnSnapshot turn) {
    const std::shared_ptr<Channel> channel = find_channel(message.channel);
    std::optional<AdmitDecision> decision;
    if (channel)
        decision = co_await channel->admit_message(std::move(session_id), message, std::move(turn));
    co_return decision;
}

}  // namespace bub::detail
