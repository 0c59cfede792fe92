#include <cubepi/mcp/server/replay.hpp>

#include <algorithm>
#include <vector>

#include <cubepi/core/support/parsed_number.hpp>

namespace cubepi::detail {

namespace {

/// Of one answer: notifications that are stored, and ended answers of a session.
constexpr std::size_t max_notifications = 256;
constexpr std::size_t max_ended = 32;

}  // namespace

/// A connection while it is written to.
class McpReplay::Reader {
public:
    explicit Reader(McpReplay& replay) : replay_(replay), number_(++replay.readers_) {
        replay_.active_reader_ = number_;
        replay_.wake();
    }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    ~Reader() {
        if (!is_active()) return;
        replay_.active_reader_ = 0;
        replay_.wake();
    }
    bool is_active() const noexcept { return replay_.active_reader_ == number_; }

private:
    McpReplay& replay_;
    std::uint64_t number_;
};

McpReplay::McpReplay(std::uint64_t id, bool is_primed) : id_(id) {
    if (is_primed) push("data: \n\n", false);
}

void McpReplay::push(std::string text, bool may_be_dropped) {
    Event event;
    event.number = ++last_number_;
    event.text = "id: " + std::to_string(id_) + "-" + std::to_string(last_number_) + "\n" + text;
    event.may_be_dropped = may_be_dropped;
    bytes_ += event.text.size();
    events_.push_back(std::move(event));
}

void McpReplay::add(const RpcMessage& message) {
    const bool may_be_dropped = message.kind == RpcMessage::Kind::notification;
    push(server_sent_event("message", rpc_text(message)), may_be_dropped);
    if (may_be_dropped && events_.size() > max_notifications) {
        const auto oldest = std::ranges::find(events_, true, &Event::may_be_dropped);
        bytes_ -= oldest->text.size();
        events_.erase(oldest);
    }
    wake();
}

void McpReplay::end() {
    is_ended_ = true;
    wake();
}

Task<> McpReplay::change() {
    changed_.reset();
    co_await changed_.wait();
}

const McpReplay::Event* McpReplay::next_after(std::uint64_t number) const {
    const auto next = std::ranges::upper_bound(events_, number, {}, &Event::number);
    return next == events_.end() ? nullptr : &*next;
}

Task<> McpReplay::write(std::shared_ptr<McpReplay> replay, std::uint64_t after,
                        std::stop_token closed, ResponseStream* out) {
    const Reader reader(*replay);
    const std::stop_callback waking(closed, [&replay] { replay->wake(); });
    while (reader.is_active() && !closed.stop_requested()) {
        const Event* next = replay->next_after(after);
        if (next) {
            after = next->number;
            std::string text = next->text;
            co_await out->write(std::move(text));
        } else if (replay->is_ended()) {
            co_return;
        } else {
            co_await replay->change();
        }
    }
}

std::shared_ptr<McpReplay> McpReplays::add(bool is_primed, std::size_t max_bytes) {
    std::vector<std::uint64_t> ended;
    std::size_t bytes = 0;
    for (const auto& [id, replay] : replays_) {
        if (!replay->is_ended()) continue;
        ended.push_back(id);
        bytes += replay->bytes();
    }
    for (std::size_t i = 0; i + 1 < ended.size(); ++i) {
        if (bytes <= max_bytes && ended.size() - i <= max_ended) break;
        bytes -= replays_.at(ended[i])->bytes();
        replays_.erase(ended[i]);
    }
    auto made = std::make_shared<McpReplay>(++last_id_, is_primed);
    replays_.emplace(last_id_, made);
    return made;
}

std::pair<std::shared_ptr<McpReplay>, std::uint64_t> McpReplays::find(
    std::string_view event_id) const {
    const std::size_t end = event_id.find('-');
    if (end == std::string_view::npos) return {};
    const auto id = parsed_number<std::uint64_t>(event_id.substr(0, end));
    const auto number = parsed_number<std::uint64_t>(event_id.substr(end + 1));
    if (!id || !number) return {};
    const auto found = replays_.find(*id);
    if (found == replays_.end()) return {};
    return {found->second, *number};
}

}  // namespace cubepi::detail
