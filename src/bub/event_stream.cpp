#include <bub/event_stream.hpp>

#include <cstddef>

#include <cubepi/core/support/json_member.hpp>

namespace bub {

namespace {

class ListSource final : public EventSource {
public:
    explicit ListSource(std::vector<StreamEvent> events) : events_(std::move(events)) {}

    cubepi::Task<std::optional<StreamEvent>> next() override { co_return ready(); }

    std::optional<StreamEvent> ready() override {
        if (position_ == events_.size()) return std::nullopt;
        return std::move(events_[position_++]);
    }

private:
    std::vector<StreamEvent> events_;
    std::size_t position_ = 0;
};

class MapSource final : public EventSource {
public:
    MapSource(EventStream upstream, std::function<std::optional<StreamEvent>(StreamEvent)> change)
        : upstream_(std::move(upstream)), change_(std::move(change)) {}

    cubepi::Task<std::optional<StreamEvent>> next() override {
        while (true) {
            std::optional<StreamEvent> event = co_await upstream_.next();
            if (!event) co_return std::nullopt;
            std::optional<StreamEvent> changed = change_(std::move(*event));
            if (changed) co_return changed;
        }
    }

    std::optional<StreamEvent> ready() override {
        while (std::optional<StreamEvent> event = upstream_.ready()) {
            if (std::optional<StreamEvent> changed = change_(std::move(*event))) return changed;
        }
        return std::nullopt;
    }

    cubepi::Task<> close() override { return upstream_.close(); }

private:
    EventStream upstream_;
    std::function<std::optional<StreamEvent>(StreamEvent)> change_;
};

}  // namespace

StreamEvent StreamEvent::text(std::string_view delta) {
    StreamEvent event;
    event.kind = event_kind::text;
    event.data["delta"] = delta;
    return event;
}

std::string_view StreamEvent::delta() const noexcept {
    return cubepi::detail::string_member(data, "delta");
}

cubepi::Task<> EventSource::close() { co_return; }

EventStream EventStream::of(std::vector<StreamEvent> events) {
    return EventStream(std::make_unique<ListSource>(std::move(events)));
}

EventStream EventStream::of_text(std::string text) {
    std::vector<StreamEvent> events;
    events.push_back(StreamEvent::text(text));
    return of(std::move(events));
}

EventStream EventStream::map(EventStream upstream,
                             std::function<std::optional<StreamEvent>(StreamEvent)> change) {
    return EventStream(std::make_unique<MapSource>(std::move(upstream), std::move(change)));
}

}  // namespace bub
