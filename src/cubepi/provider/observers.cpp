#include <cubepi/provider/observers.hpp>

#include <algorithm>
#include <exception>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/provider/message_assembler.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

namespace cubepi {

std::shared_ptr<const ObserverRegistry::Lists> ObserverRegistry::lists() const {
    const std::lock_guard lock(mutex_);
    return lists_;
}

const std::string& ProviderCall::id() const {
    if (id_.empty()) id_ = request.options.runtime()->ids->next();
    return id_;
}

Json ProviderOutcome::body() const {
    const AssistantMessage* answer = message ? message.assistant() : nullptr;
    if (!build_body || !answer) return {};
    return build_body(*answer);
}

const JsonObject& RequestPayload::json() const {
    if (body_) return *body_;
    if (!built_) built_ = build_ ? build_(*request_) : JsonObject();
    return *built_;
}

bool ObservedCall::announce() {
    if (announced) return false;
    announced = true;
    call.started = now();
    return true;
}

std::shared_ptr<ObservedCall> ObserverRegistry::observe(const ModelRequest& request) {
    if (empty()) return nullptr;
    ModelRequest copy = request;
    return take(copy);
}

std::shared_ptr<ObservedCall> ObserverRegistry::take(ModelRequest& request) {
    if (empty()) return nullptr;
    return std::make_shared<ObservedCall>(shared_from_this(), std::move(request));
}

template <class F>
void ObserverRegistry::change(F&& f) {
    auto fresh = std::make_shared<Lists>(*lists_);
    f(*fresh);
    const auto any_async = [](const auto& entries) {
        return std::any_of(entries.begin(), entries.end(),
                           [](const auto& e) { return e.observer.is_async(); });
    };
    fresh->has_async =
        any_async(fresh->request) || any_async(fresh->chunk) || any_async(fresh->response);
    count_.store(fresh->request.size() + fresh->chunk.size() + fresh->response.size(),
                 std::memory_order_release);
    lists_ = std::move(fresh);
    version_.fetch_add(1, std::memory_order_release);
}

std::uint64_t ObserverRegistry::add(RequestObserver observer) {
    const std::lock_guard lock(mutex_);
    change([&](Lists& lists) { lists.request.push_back({next_id_, std::move(observer)}); });
    return next_id_++;
}

std::uint64_t ObserverRegistry::add(ChunkObserver observer) {
    const std::lock_guard lock(mutex_);
    change([&](Lists& lists) { lists.chunk.push_back({next_id_, std::move(observer)}); });
    return next_id_++;
}

std::uint64_t ObserverRegistry::add(ResponseObserver observer) {
    const std::lock_guard lock(mutex_);
    change([&](Lists& lists) { lists.response.push_back({next_id_, std::move(observer)}); });
    return next_id_++;
}

void ObserverRegistry::remove(std::uint64_t id) noexcept {
    const std::lock_guard lock(mutex_);
    const auto is_it = [id](const auto& entry) { return entry.id == id; };
    change([&](Lists& lists) {
        std::erase_if(lists.request, is_it);
        std::erase_if(lists.chunk, is_it);
        std::erase_if(lists.response, is_it);
    });
}

namespace {

Notice failure_notice(const char* which, const std::exception_ptr& failure) {
    Notice notice;
    notice.code = "observer_failed";
    notice.text =
        std::string("A ") + which + " observer of the provider threw: " + exception_text(failure);
    return notice;
}

/// Calls all observers in their order. The argument outlives the coroutine: it is the caller's.
template <class Entries, class Arg>
Task<> notify(const Entries& entries, const char* which, const Arg& arg, const ProviderCall& call,
              std::vector<Notice>& notices) {
    for (const auto& entry : entries) {
        std::exception_ptr failure;
        try {
            MaybeTask<> outcome = entry.observer(arg, call);
            if (outcome.is_pending()) co_await std::move(outcome).task();
        } catch (...) {
            failure = std::current_exception();
        }
        if (!failure) continue;
        if (is_cancellation(failure)) std::rethrow_exception(failure);
        notices.push_back(failure_notice(which, failure));
    }
}

template <class Entries, class Arg>
void notify_now(const Entries& entries, const char* which, const Arg& arg, const ProviderCall& call,
                std::vector<Notice>& notices) {
    for (const auto& entry : entries) {
        if (entry.observer.is_async()) continue;
        try {
            (void)entry.observer(arg, call);
        } catch (...) {
            notices.push_back(failure_notice(which, std::current_exception()));
        }
    }
}

class ObservedSource final : public StreamSource {
public:
    ObservedSource(std::shared_ptr<ObservedCall> observed, std::unique_ptr<StreamSource> source,
                   BodyBuilder body)
        : observed_(std::move(observed)), source_(std::move(source)), body_(std::move(body)) {}

    ~ObservedSource() override {
        if (answered_) return;
        std::vector<Notice> unheard;
        ProviderOutcome dropped;
        dropped.started = observed_->call.started;
        dropped.first_chunk = first_chunk_;
        dropped.ended = observed_->now();
        dropped.details = std::move(observed_->details);
        notify_now(lists().response, "response", dropped, call(), unheard);
    }

    std::optional<StreamEvent> ready() override {
        if (!quiet_ || observed_->observers->version() != version_) return ready_observed();
        std::optional<StreamEvent> event = source_->ready();
        if (event && event->is_terminal()) {
            quiet_ = false;
            notify_now_of(event);
        }
        return event;
    }

    Task<StreamEvent> next() override {
        quiet_ = false;
        if (!queue_.empty()) co_return queue_.pop();
        std::vector<Notice> notices;
        (void)lists();
        std::shared_ptr<const ObserverRegistry::Lists> observers = lists_;
        if (observed_->build_payload && observed_->announce()) {
            const RequestPayload payload = observed_->payload();
            co_await notify(observers->request, "request", payload, call(), notices);
            if (!notices.empty()) co_return first_of(std::move(notices));
        }
        std::optional<StreamEvent> event = source_->ready();
        if (!event) event.emplace(co_await source_->next());
        (void)lists();
        observers = lists_;
        if (observed_->announce()) {
            const RequestPayload none;
            co_await notify(observers->request, "request", none, call(), notices);
        }
        note_time(*event);
        co_await notify(observers->chunk, "chunk", *event, call(), notices);
        if (event->is_terminal()) {
            answered_ = true;
            const ProviderOutcome ended = outcome(*event);
            co_await notify(observers->response, "response", ended, call(), notices);
        }
        if (notices.empty()) co_return std::move(*event);
        put(std::move(*event), std::move(notices));
        co_return queue_.pop();
    }

private:
    const ProviderCall& call() const noexcept { return observed_->call; }

    /// ready() while an observer may have to be notified of any event.
    std::optional<StreamEvent> ready_observed() {
        if (!queue_.empty()) return queue_.pop();
        if (lists().has_async) return std::nullopt;
        if (observed_->build_payload && !observed_->announced) {
            announce(observed_->payload());
            if (!queue_.empty()) return queue_.pop();
        }
        std::optional<StreamEvent> event = source_->ready();
        if (event && must_notify(*event)) notify_now_of(event);
        quiet_ = first_chunk_ && observed_->announced && lists_->chunk.empty() && queue_.empty();
        return event;
    }

    bool must_notify(const StreamEvent& event) {
        note_time(event);
        return !observed_->announced || !lists_->chunk.empty() || event.is_terminal();
    }

    /// Calls the request observers, whose notices are queued.
    void announce(const RequestPayload& payload) {
        observed_->announce();
        std::vector<Notice> notices;
        notify_now(lists_->request, "request", payload, call(), notices);
        put_notices(std::move(notices));
    }

    /// Calls the observers of an event. Replaces it by the first of their notices if it is the last event.
    void notify_now_of(std::optional<StreamEvent>& event) {
        std::vector<Notice> notices;
        const ObserverRegistry::Lists& observers = *lists_;
        if (observed_->announce())
            notify_now(observers.request, "request", RequestPayload(), call(), notices);
        notify_now(observers.chunk, "chunk", *event, call(), notices);
        if (event->is_terminal()) {
            answered_ = true;
            notify_now(observers.response, "response", outcome(*event), call(), notices);
        }
        if (notices.empty()) return;
        put(std::move(*event), std::move(notices));
        event = queue_.pop();
    }

    /// The current lists. Takes the registry's lock only after a change, not for each event.
    const ObserverRegistry::Lists& lists() {
        const std::uint64_t version = observed_->observers->version();
        if (version != version_) {
            lists_ = observed_->observers->lists();
            version_ = version;
        }
        return *lists_;
    }

    void note_time(const StreamEvent& event) {
        if (first_chunk_) return;
        const bool is_delta = event.type == StreamEventType::text_delta ||
                              event.type == StreamEventType::thinking_delta ||
                              event.type == StreamEventType::toolcall_delta;
        if (is_delta) first_chunk_ = observed_->now();
    }

    ProviderOutcome outcome(const StreamEvent& event) const {
        Message message = event.partial.message();
        SharedValue<ErrorInfo> error = message.assistant()->error;
        return ProviderOutcome{
            .message = std::move(message),
            .error = std::move(error),
            .started = observed_->call.started,
            .first_chunk = first_chunk_,
            .ended = observed_->now(),
            .details = std::move(observed_->details),
            .build_body = event.type == StreamEventType::error ? BodyBuilder() : body_};
    }

    void put(StreamEvent event, std::vector<Notice> notices) {
        // Nothing may follow the end of a stream.
        if (event.is_terminal()) {
            put_notices(std::move(notices));
            queue_.push(std::move(event));
        } else {
            queue_.push(std::move(event));
            put_notices(std::move(notices));
        }
    }

    void put_notices(std::vector<Notice> notices) {
        for (Notice& notice : notices) queue_.push(MessageAssembler::notice(std::move(notice)));
    }

    /// Queues the notices of the request, which precede all events. There is at least one.
    StreamEvent first_of(std::vector<Notice> notices) {
        put_notices(std::move(notices));
        return queue_.pop();
    }

    std::shared_ptr<ObservedCall> observed_;
    // Not replaced while observers are called.
    std::shared_ptr<const ObserverRegistry::Lists> lists_;
    std::uint64_t version_ = 0;
    std::optional<std::chrono::steady_clock::time_point> first_chunk_;
    std::unique_ptr<StreamSource> source_;
    BodyBuilder body_;
    detail::EventQueue queue_;
    bool quiet_ = false;  // with these lists, observers are only notified of the last event
    bool answered_ = false;
};

}  // namespace

Task<std::vector<Notice>> observe_request(std::shared_ptr<ObservedCall> call,
                                          RequestPayload payload) {
    std::vector<Notice> notices;
    call->announce();
    const auto lists = call->observers->lists();
    co_await notify(lists->request, "request", payload, call->call, notices);
    co_return notices;
}

std::unique_ptr<StreamSource> observe_stream(std::shared_ptr<ObservedCall> call,
                                             std::unique_ptr<StreamSource> source,
                                             BodyBuilder body) {
    return std::make_unique<ObservedSource>(std::move(call), std::move(source), std::move(body));
}

}  // namespace cubepi
