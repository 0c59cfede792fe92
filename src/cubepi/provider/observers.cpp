#include <cubepi/provider/observers.hpp>

#include <algorithm>
#include <deque>
#include <exception>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/provider/message_assembler.hpp>

namespace cubepi {

std::shared_ptr<const ObserverRegistry::Lists> ObserverRegistry::lists() const {
    const std::lock_guard lock(mutex_);
    return lists_;
}

template <class F>
void ObserverRegistry::change(F&& f) {
    auto fresh = std::make_shared<Lists>(*lists_);
    f(*fresh);
    const auto any_async = [](const auto& entries) {
        return std::any_of(entries.begin(), entries.end(),
                           [](const auto& e) { return e.observer.is_async(); });
    };
    fresh->has_async = any_async(fresh->chunk) || any_async(fresh->response);
    count_.store(fresh->request.size() + fresh->chunk.size() + fresh->response.size(),
                 std::memory_order_release);
    lists_ = std::move(fresh);
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

namespace detail {
namespace {

Notice failure_notice(const char* which, const std::exception_ptr& failure) {
    Notice notice;
    notice.code = "observer_failed";
    std::string why = "an exception that is not a std::exception";
    try {
        std::rethrow_exception(failure);
    } catch (const std::exception& error) {
        why = error.what();
    } catch (...) {
    }
    notice.text = std::string("A ") + which + " observer of the provider threw: " + why;
    return notice;
}

/// Calls all observers in their order. The argument outlives the coroutine: it is the caller's.
template <class Entries, class Arg>
Task<> tell(const Entries& entries, const char* which, const Arg& arg, const Model& model,
            std::vector<Notice>& notices) {
    for (const auto& entry : entries) {
        std::exception_ptr failure;
        try {
            MaybeTask<> outcome = entry.observer(arg, model);
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
void tell_now(const Entries& entries, const char* which, const Arg& arg, const Model& model,
              std::vector<Notice>& notices) {
    for (const auto& entry : entries) {
        if (entry.observer.is_async()) continue;
        try {
            (void)entry.observer(arg, model);
        } catch (...) {
            notices.push_back(failure_notice(which, std::current_exception()));
        }
    }
}

class ObservedSource final : public StreamSource {
public:
    ObservedSource(std::shared_ptr<ObserverRegistry> registry, std::unique_ptr<StreamSource> source,
                   Model model, BodyBuilder body)
        : registry_(std::move(registry)),
          source_(std::move(source)),
          model_(std::move(model)),
          body_(std::move(body)) {}

    ~ObservedSource() override {
        if (answered_) return;
        std::vector<Notice> unheard;
        tell_now(registry_->lists()->response, "response", ProviderOutcome(), model_, unheard);
    }

    std::optional<StreamEvent> ready() override {
        if (!queue_.empty()) return take();
        const auto lists = registry_->lists();
        if (lists->has_async) return std::nullopt;
        std::optional<StreamEvent> event = source_->ready();
        if (!event) return std::nullopt;
        std::vector<Notice> notices;
        tell_now(lists->chunk, "chunk", *event, model_, notices);
        if (event->is_terminal()) {
            answered_ = true;
            tell_now(lists->response, "response", outcome(*event), model_, notices);
        }
        put(std::move(*event), std::move(notices));
        return take();
    }

    Task<StreamEvent> next() override {
        if (!queue_.empty()) co_return take();
        std::optional<StreamEvent> event = source_->ready();
        if (!event) event.emplace(co_await source_->next());
        const auto lists = registry_->lists();
        std::vector<Notice> notices;
        co_await tell(lists->chunk, "chunk", *event, model_, notices);
        if (event->is_terminal()) {
            answered_ = true;
            const ProviderOutcome told = outcome(*event);
            co_await tell(lists->response, "response", told, model_, notices);
        }
        put(std::move(*event), std::move(notices));
        co_return take();
    }

private:
    ProviderOutcome outcome(const StreamEvent& event) const {
        ProviderOutcome told;
        told.message = event.partial.message();
        const AssistantMessage& message = *told.message.assistant();
        told.error = message.error;
        const bool failed = event.type == StreamEventType::error;
        if (body_ && !failed) told.body = body_(message);
        return told;
    }

    void put(StreamEvent event, std::vector<Notice> notices) {
        // Nothing may follow the end of a stream.
        const bool last = event.is_terminal();
        queue_.push_back(std::move(event));
        for (Notice& notice : notices)
            queue_.insert(last ? queue_.end() - 1 : queue_.end(),
                          MessageAssembler::notice(std::move(notice)));
    }

    StreamEvent take() {
        StreamEvent event = std::move(queue_.front());
        queue_.pop_front();
        return event;
    }

    std::shared_ptr<ObserverRegistry> registry_;
    std::unique_ptr<StreamSource> source_;
    Model model_;
    BodyBuilder body_;
    std::deque<StreamEvent> queue_;
    bool answered_ = false;
};

}  // namespace

Task<std::vector<Notice>> observe_request(std::shared_ptr<ObserverRegistry> registry,
                                          JsonObject payload, Model model) {
    std::vector<Notice> notices;
    const auto lists = registry->lists();
    co_await tell(lists->request, "request", payload, model, notices);
    co_return notices;
}

std::unique_ptr<StreamSource> observe_stream(std::shared_ptr<ObserverRegistry> registry,
                                             std::unique_ptr<StreamSource> source, Model model,
                                             BodyBuilder body) {
    return std::make_unique<ObservedSource>(std::move(registry), std::move(source),
                                            std::move(model), std::move(body));
}

}  // namespace detail

}  // namespace cubepi
