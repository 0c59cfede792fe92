#include <bub/channel/channel_manager.hpp>

#include <utility>

#include <bub/channel/manager/manager_core.hpp>

namespace bub {

ChannelManager::ChannelManager(Framework& framework, ChannelManagerOptions options)
    : core_(std::make_shared<detail::ManagerCore>(framework, std::move(options))) {}

ChannelManager::~ChannelManager() = default;

Task<std::vector<std::shared_ptr<Channel>>> ChannelManager::enabled_channels() {
    return core_->enabled_channels();
}

Task<> ChannelManager::run(std::stop_token stop) { return core_->run(std::move(stop)); }

void ChannelManager::request_stop() { core_->request_stop(); }

Task<> ChannelManager::started() { return core_->started(); }

Task<std::size_t> ChannelManager::drain(std::chrono::nanoseconds limit) {
    return core_->drain(limit);
}

std::vector<TurnSnapshot> ChannelManager::sessions() const { return core_->sessions(); }

Task<> ChannelManager::receive(Envelope message) { return core_->receive(std::move(message)); }

bool ChannelManager::cancel_turn(const std::string& session_id) {
    return core_->cancel_turn(session_id);
}

Task<> ChannelManager::abort_session(std::string session_id) {
    return core_->abort_session(std::move(session_id));
}

TurnSnapshot ChannelManager::snapshot(const std::string& session_id) const {
    return core_->snapshot(session_id);
}

std::size_t ChannelManager::busy_sessions() const { return core_->busy_sessions(); }

Task<> ChannelManager::idle() { return core_->idle(); }

Task<HeldMessages> ChannelManager::held() { return core_->held(); }

Task<> ChannelManager::release_held(std::string id) { return core_->release_held(std::move(id)); }

Task<> ChannelManager::discard_held(std::string id) { return core_->discard_held(std::move(id)); }

}  // namespace bub
