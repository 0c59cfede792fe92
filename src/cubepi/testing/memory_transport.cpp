#include <cubepi/testing/memory_transport.hpp>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/timeout.hpp>

#include <atomic>
#include <deque>

namespace cubepi::testing {

MemoryResponse::MemoryResponse(int status, std::string body) : status_(status) {
    if (!body.empty()) add(Step::Kind::piece).bytes = std::move(body);
}

MemoryResponse::Step& MemoryResponse::add(Step::Kind kind) { return steps_.emplace_back(kind); }

MemoryResponse MemoryResponse::failing(std::exception_ptr failure) {
    MemoryResponse response;
    response.failure_ = std::move(failure);
    return response;
}

MemoryResponse MemoryResponse::never() {
    MemoryResponse response;
    response.never_ = true;
    return response;
}

MemoryResponse&& MemoryResponse::with_header(std::string name, std::string value) && {
    headers_.add(std::move(name), std::move(value));
    return std::move(*this);
}

MemoryResponse&& MemoryResponse::with_piece(std::string bytes) && {
    add(Step::Kind::piece).bytes = std::move(bytes);
    return std::move(*this);
}

MemoryResponse&& MemoryResponse::with_event(const std::string& data) && {
    return std::move(*this).with_piece("data: " + data + "\n\n");
}

MemoryResponse&& MemoryResponse::in_pieces_of(std::size_t bytes) && {
    if (bytes == 0) throw Error(ErrorCode::invalid_argument, "A piece has at least one byte.");
    std::vector<Step> cut;
    for (Step& step : steps_) {
        if (step.kind != Step::Kind::piece) {
            cut.push_back(std::move(step));
            continue;
        }
        for (std::size_t at = 0; at < step.bytes.size(); at += bytes) {
            cut.emplace_back(Step::Kind::piece).bytes = step.bytes.substr(at, bytes);
        }
    }
    steps_ = std::move(cut);
    return std::move(*this);
}

MemoryResponse&& MemoryResponse::with_delay(std::chrono::nanoseconds delay) && {
    add(Step::Kind::delay).delay = delay;
    return std::move(*this);
}

MemoryResponse&& MemoryResponse::with_stall() && {
    add(Step::Kind::stall);
    return std::move(*this);
}

MemoryResponse&& MemoryResponse::with_failure(std::exception_ptr failure) && {
    add(Step::Kind::failure).failure = std::move(failure);
    return std::move(*this);
}

MemoryResponse&& MemoryResponse::with_call(std::function<void()> call) && {
    add(Step::Kind::call).call = std::move(call);
    return std::move(*this);
}

struct MemoryTransport::Shared {
    std::mutex mutex;
    Handler handler;
    std::shared_ptr<Clock> clock;
    std::vector<HttpRequest> requests;
    std::atomic<std::size_t> open{0};
};

namespace {

/// A guard that counts an exchange from its request to the end of its body.
class OpenExchange {
public:
    explicit OpenExchange(std::atomic<std::size_t>& count) : count_(&count) { ++*count_; }
    ~OpenExchange() {
        if (count_ != nullptr) --*count_;
    }
    OpenExchange(OpenExchange&& other) noexcept : count_(std::exchange(other.count_, nullptr)) {}
    OpenExchange& operator=(OpenExchange&&) = delete;

private:
    std::atomic<std::size_t>* count_;
};

}  // namespace

class MemoryBody final : public HttpBody {
public:
    using Step = MemoryResponse::Step;

    MemoryBody(MemoryResponse response, std::shared_ptr<Clock> clock, Clock::time_point deadline,
               std::chrono::nanoseconds total, std::shared_ptr<void> shared, OpenExchange open)
        : steps_(std::make_move_iterator(response.steps_.begin()),
                 std::make_move_iterator(response.steps_.end())),
          clock_(std::move(clock)),
          deadline_(deadline),
          total_(total),
          shared_(std::move(shared)),
          open_(std::move(open)) {}

    bool read_ready(std::string& out) override {
        run_calls();
        if (steps_.empty() || steps_.front().kind != Step::Kind::piece) return false;
        out += steps_.front().bytes;
        steps_.pop_front();
        return true;
    }

    bool interruptible() const noexcept override { return true; }

    void interrupt() noexcept override {
        interrupted_ = true;
        wake_.set();
    }

    Task<bool> read(std::string& out) override {
        if (!clock_ || total_.count() == 0) return play(out);
        return play_in_time(out);
    }

private:
    void run_calls() {
        while (!steps_.empty() && steps_.front().kind == Step::Kind::call) {
            const std::function<void()> call = std::move(steps_.front().call);
            steps_.pop_front();
            call();
        }
    }

    Task<bool> play_in_time(std::string& out) {
        Task<bool> playing = play(out);
        co_return co_await with_timeout(*clock_, deadline_ - clock_->now(), std::move(playing),
                                        "total");
    }

    Task<bool> play(std::string& out) {
        while (!read_ready(out)) {
            if (interrupted_) throw_cancelled();
            if (steps_.empty()) co_return false;
            if (steps_.front().kind == Step::Kind::failure)
                std::rethrow_exception(steps_.front().failure);
            if (steps_.front().kind == Step::Kind::stall) {
                co_await wake_.wait();
                continue;
            }
            if (!clock_)
                throw Error(ErrorCode::invalid_state,
                            "with_delay needs a MemoryTransport with a clock.");
            const std::chrono::nanoseconds delay = steps_.front().delay;
            steps_.pop_front();
            const std::unique_ptr<ClockTimer> timer = clock_->timer(co_await this_executor);
            timer->expires_after(delay, [this] { wake_.pulse(); });
            co_await wake_.wait();
        }
        co_return true;
    }

    std::deque<Step> steps_;
    std::shared_ptr<Clock> clock_;
    Clock::time_point deadline_;
    std::chrono::nanoseconds total_;
    std::shared_ptr<void> shared_;
    OpenExchange open_;
    AsyncEvent wake_;  // the end of a delay, or of reading
    bool interrupted_ = false;
};

namespace {

Task<> wait_for_ever() {
    AsyncEvent never;
    co_await never.wait();
}

}  // namespace

MemoryTransport::MemoryTransport(Handler handler, std::shared_ptr<Clock> clock)
    : shared_(std::make_shared<Shared>()) {
    shared_->handler = std::move(handler);
    shared_->clock = std::move(clock);
}

MemoryTransport::MemoryTransport(std::vector<MemoryResponse> answers, std::shared_ptr<Clock> clock)
    : MemoryTransport(
          [answers = std::move(answers), next = std::size_t{0}](const HttpRequest&) mutable {
              if (next == answers.size()) {
                  throw Error(ErrorCode::invalid_state,
                              "More requests were made than the test has answers for (" +
                                  std::to_string(next) + ").");
              }
              return std::move(answers[next++]);
          },
          std::move(clock)) {}

Task<HttpResponse> MemoryTransport::send(HttpRequest request) {
    const std::shared_ptr<Shared> shared = shared_;
    OpenExchange open(shared->open);
    const HttpTimeouts timeouts = request.timeouts;
    MemoryResponse answer;
    {
        const std::lock_guard lock(shared->mutex);
        shared->requests.push_back(request);
        answer = shared->handler(request);
    }
    Clock::time_point deadline{};
    if (shared->clock) deadline = shared->clock->now() + timeouts.total;
    if (answer.failure_) std::rethrow_exception(answer.failure_);
    if (answer.never_) {
        Task<> waiting = wait_for_ever();
        const bool by_total = timeouts.total.count() != 0 && timeouts.total < timeouts.first_byte;
        const std::chrono::nanoseconds limit = by_total ? timeouts.total : timeouts.first_byte;
        if (shared->clock && limit.count() != 0) {
            co_await with_timeout(*shared->clock, limit, std::move(waiting),
                                  by_total ? "total" : "first_byte");
        } else {
            co_await std::move(waiting);
        }
    }
    HttpResponse response;
    response.status = answer.status_;
    response.headers = std::move(answer.headers_);
    response.version = "1.1";
    response.url = std::move(request.url);
    response.body = std::make_unique<MemoryBody>(std::move(answer), shared->clock, deadline,
                                                 timeouts.total, shared, std::move(open));
    co_return response;
}

std::vector<HttpRequest> MemoryTransport::requests() const {
    const std::lock_guard lock(shared_->mutex);
    return shared_->requests;
}

std::size_t MemoryTransport::open_exchanges() const { return shared_->open; }

}  // namespace cubepi::testing
