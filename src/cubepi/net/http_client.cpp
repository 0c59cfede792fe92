#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/net/http_client.hpp>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/number_text.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/net/curl/curl_engine.hpp>
#include <cubepi/net/curl/curl_transfer.hpp>
#include <cubepi/net/curl/request_route.hpp>
#include <cubepi/net/network_error.hpp>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace cubepi {

using detail::CurlTransfer;
using detail::ProxyChoice;
using detail::RequestUrl;
using detail::TransferPlan;
using detail::TransferStage;
using std::chrono::nanoseconds;

struct HttpClient::State {
    std::shared_ptr<Clock> clock;
    std::shared_ptr<WorkerPool> resolvers;
    std::shared_ptr<detail::NameCache> names;  // null: the context's
    detail::EnvLookup env;
    std::string ca_file;
    std::size_t max_header_bytes = 0;
    std::size_t read_ahead_bytes = 0;
    Logger log;
};

namespace {

constexpr int max_redirects = 10;

std::optional<std::string> process_env(const std::string& name) {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
}

std::exception_ptr timed_out(const char* timeout, nanoseconds limit, const std::string& server) {
    const std::string name = timeout;
    std::string text;
    if (name == "connect") {
        text = "No connection to " + server + " within " + seconds_text(limit) +
               ". Check the address and the network";
    } else if (name == "first_byte") {
        text =
            server + " took the request and did not begin to answer within " + seconds_text(limit);
    } else {
        text = "The exchange with " + server + " was not complete within " + seconds_text(limit);
    }
    return std::make_exception_ptr(
        TimeoutError(name, text + " (timeout: " + name + "; raise it if that is expected)."));
}

/// A value with a line break could inject a header.
void check(const HttpRequest& request) {
    if (!is_http_token(request.method))
        throw Error(ErrorCode::invalid_argument, "The HTTP method is not a word.");
    for (const HttpHeader& header : request.headers) {
        if (!is_http_token(header.name)) {
            throw Error(ErrorCode::invalid_argument,
                        "A request header's name has characters that HTTP does not allow.");
        }
        if (!is_http_field_value(header.value)) {
            throw Error(ErrorCode::invalid_argument,
                        "The value of the request header " + header.name +
                            " has a line break or a NUL in it. (A key that was read from a file "
                            "often ends with one.)");
        }
    }
    if (request.follow_redirects && !request.resolve_to.empty()) {
        throw Error(
            ErrorCode::invalid_argument,
            "follow_redirects and resolve_to exclude each other: the addresses fit one host only.");
    }
}

bool is_redirect(int status) {
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool looks_secret(const std::string& header) {
    const std::string name = detail::lower_case(header);
    for (const char* word :
         {"auth", "key", "token", "secret", "cookie", "password", "credential"}) {
        if (name.find(word) != std::string::npos) return true;
    }
    return false;
}

/// Changes the request for the target of a redirect (RFC 9110, 15.4).
void redirect(HttpRequest& request, int status, const RequestUrl& from, const RequestUrl& to) {
    request.url = to.url;
    const bool becomes_get = (status == 303 && request.method != "HEAD") ||
                             ((status == 301 || status == 302) && request.method == "POST");
    HttpHeaders headers;
    for (const HttpHeader& header : request.headers) {
        if (!same_origin(from, to) && looks_secret(header.name)) continue;
        const std::string name = detail::lower_case(header.name);
        if (becomes_get && (name.starts_with("content-") || name == "transfer-encoding")) continue;
        headers.add(header.name, header.value);
    }
    request.headers = std::move(headers);
    if (becomes_get) {
        request.method = "GET";
        request.body.clear();
    }
}

/// A guard that ends a transfer whose coroutine is destroyed before another object has taken ownership.
class TransferOwner {
public:
    explicit TransferOwner(std::shared_ptr<CurlTransfer> transfer)
        : transfer_(std::move(transfer)) {}
    ~TransferOwner() {
        if (transfer_) transfer_->close(nullptr);
    }
    TransferOwner(TransferOwner&&) = default;
    TransferOwner& operator=(TransferOwner&&) = delete;
    CurlTransfer* operator->() const noexcept { return transfer_.get(); }
    const std::shared_ptr<CurlTransfer>& get() const noexcept { return transfer_; }

private:
    std::shared_ptr<CurlTransfer> transfer_;
};

class CurlBody final : public HttpBody {
public:
    CurlBody(TransferOwner transfer, std::shared_ptr<Clock> clock,
             std::unique_ptr<ClockTimer> total)
        : clock_(std::move(clock)), transfer_(std::move(transfer)), total_(std::move(total)) {}

    Task<bool> read(std::string& out) override { return transfer_->read(out); }
    bool read_ready(std::string& out) override { return transfer_->read_ready(out); }
    bool interruptible() const noexcept override { return true; }
    void interrupt() noexcept override { transfer_->close(nullptr); }

private:
    std::shared_ptr<Clock> clock_;
    TransferOwner transfer_;
    std::unique_ptr<ClockTimer> total_;
};

}  // namespace

/// One request to one server: name resolution, then libcurl, under the timeouts.
struct HttpExchange {
    using State = HttpClient::State;

    std::shared_ptr<const State> state;
    std::shared_ptr<detail::NameCache> names;
    RequestUrl url;
    ProxyChoice proxy;
    HttpTimeouts timeouts;
    Clock::time_point started;
    Clock::time_point total_deadline;

    static Task<HttpResponse> run(std::shared_ptr<const State> state, HttpRequest request);
    Task<HttpResponse> once(HttpRequest request);
    Task<HttpResponse> logged(HttpRequest request);
    Task<HttpResponse> answer(HttpRequest request) {
        return state->log.is_on(LogLevel::warning) ? logged(std::move(request))
                                                   : once(std::move(request));
    }
    Task<std::vector<std::string>> addresses(std::string host);
    Task<std::vector<std::string>> look_up(std::string host);
    Task<> resolve_into(TransferPlan& plan, std::string host, std::uint16_t port);
    Task<> await_head(CurlTransfer& transfer);
    void arm(ClockTimer& timer, CurlTransfer& transfer, TransferStage stage);
    std::unique_ptr<ClockTimer> total_timer(const Executor& executor, CurlTransfer& transfer);
    TransferPlan plan(HttpRequest request) const;
};

TransferPlan HttpExchange::plan(HttpRequest request) const {
    TransferPlan plan;
    plan.url = url.url;
    plan.server = url.server();
    plan.proxy = proxy.url;
    plan.proxy_server = proxy.url.empty() ? std::string() : proxy.server();
    plan.own_connection = !request.resolve_to.empty();
    plan.ca_file = state->ca_file;
    plan.max_header_bytes = state->max_header_bytes;
    plan.high_water = std::max<std::size_t>(state->read_ahead_bytes, 1);
    plan.request = std::move(request);
    return plan;
}

Task<std::vector<std::string>> HttpExchange::look_up(std::string host) {
    // The job shares the cache and not the client: a thread of the pool must never be the one that destroys it.
    auto job = [names = names, host] { return names->resolve(host); };
    return offload(*state->resolvers, std::move(job));
}

Task<std::vector<std::string>> HttpExchange::addresses(std::string host) {
    detail::NameCache::Lookup known = names->find(host);
    if (known.refresh) {
        auto job = [names = names, host] {
            try {
                (void)names->resolve(host);
            } catch (...) {
                // The next request that needs the name will report it.
            }
        };
        state->resolvers->post(std::move(job));
    }
    if (!known.addresses.empty()) co_return std::move(known.addresses);

    const char* timeout = "connect";
    nanoseconds limit = timeouts.connect;
    nanoseconds wait = limit;
    const nanoseconds left = total_deadline - started;
    if (timeouts.total.count() != 0 && (limit.count() == 0 || left < limit)) {
        timeout = "total";
        limit = timeouts.total;
        wait = left;
    }
    Task<std::vector<std::string>> lookup = look_up(host);
    if (limit.count() == 0) co_return co_await std::move(lookup);
    std::exception_ptr late;
    try {
        co_return co_await with_timeout(*state->clock, wait, std::move(lookup), timeout);
    } catch (const TimeoutError&) {
        late = timed_out(timeout, limit, url.server() + " (its name did not resolve)");
    }
    std::rethrow_exception(late);
}

Task<> HttpExchange::resolve_into(TransferPlan& plan, std::string host, std::uint16_t port) {
    // libcurl resolves localhost itself (RFC 6761, 6.3).
    if (host == "localhost" || host.ends_with(".localhost")) co_return;
    const std::vector<std::string> found = co_await addresses(host);
    std::string entry = detail::bracketed(host) + ":" + std::to_string(port) + ":";
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (i > 0) entry += ',';
        entry += detail::bracketed(found[i]);
    }
    plan.resolve.push_back(std::move(entry));
}

void HttpExchange::arm(ClockTimer& timer, CurlTransfer& transfer, TransferStage stage) {
    if (stage == TransferStage::connecting) {
        if (timeouts.connect.count() == 0) return;
        timer.expires_at(deadline_after(started, timeouts.connect), [this, &transfer] {
            transfer.close(timed_out("connect", timeouts.connect, url.server()));
        });
        return;
    }
    timer.cancel();
    if (timeouts.first_byte.count() == 0) return;
    // While a large body is being sent, only a stall counts.
    const std::size_t sent = transfer.sent();
    timer.expires_after(timeouts.first_byte, [this, &timer, &transfer, stage, sent] {
        if (stage == TransferStage::sending && transfer.sent() != sent)
            return arm(timer, transfer, stage);
        transfer.close(timed_out("first_byte", timeouts.first_byte, url.server()));
    });
}

Task<> HttpExchange::await_head(CurlTransfer& transfer) {
    const std::unique_ptr<ClockTimer> timer = state->clock->timer(co_await this_executor);
    TransferStage stage = TransferStage::connecting;
    while (stage < TransferStage::head) {
        arm(*timer, transfer, stage);
        stage = co_await transfer.beyond(stage);
    }
}

std::unique_ptr<ClockTimer> HttpExchange::total_timer(const Executor& executor,
                                                      CurlTransfer& transfer) {
    if (timeouts.total.count() == 0) return nullptr;
    auto timer = state->clock->timer(executor);
    timer->expires_at(total_deadline, [&transfer, limit = timeouts.total, server = url.server()] {
        transfer.close(timed_out("total", limit, server));
    });
    return timer;
}

Task<HttpResponse> HttpExchange::once(HttpRequest request) {
    const Executor executor = co_await this_executor;
    const std::shared_ptr<detail::CurlEngine> engine = detail::CurlEngine::of(executor);
    names = state->names ? state->names : engine->system_names();
    started = state->clock->now();
    proxy = detail::choose_proxy(url, state->env);
    TransferPlan transfer_plan = plan(std::move(request));
    const std::vector<std::string>& pinned = transfer_plan.request.resolve_to;
    const bool through_proxy = !proxy.url.empty();

    if (through_proxy && !proxy.is_address)
        co_await resolve_into(transfer_plan, proxy.host, proxy.port);
    if (!pinned.empty()) {
        std::string entry = detail::bracketed(url.host) + ":" + std::to_string(url.port) + ":";
        if (through_proxy) {
            entry += detail::bracketed(pinned.front()) + ":" + std::to_string(url.port);
            transfer_plan.connect_to.push_back(std::move(entry));
        } else {
            for (const std::string& address : pinned) entry += detail::bracketed(address) + ",";
            entry.pop_back();
            transfer_plan.resolve.push_back(std::move(entry));
        }
    } else if (!url.is_address && (!through_proxy || !proxy.resolves_target)) {
        co_await resolve_into(transfer_plan, url.host, url.port);
    }

    TransferOwner transfer(std::make_shared<CurlTransfer>(engine, std::move(transfer_plan)));
    std::unique_ptr<ClockTimer> total = total_timer(executor, *transfer.get());
    engine->start(transfer.get());
    try {
        co_await await_head(*transfer.get());
    } catch (const Error& error) {
        const auto* timeout = dynamic_cast<const TimeoutError*>(&error);
        if (error.code() == ErrorCode::connect || error.code() == ErrorCode::proxy ||
            (timeout != nullptr && timeout->timeout() == "connect")) {
            names->failed(through_proxy ? proxy.host : url.host);
        }
        throw;
    }
    HttpResponse response = transfer->take_head();
    response.url = url.url;
    response.body = std::make_unique<CurlBody>(std::move(transfer), state->clock, std::move(total));
    co_return response;
}

/// once() with a record of its outcome: the server and the proxy, and not the path, which may contain a secret.
Task<HttpResponse> HttpExchange::logged(HttpRequest request) {
    const std::string method = request.method;
    const Clock::time_point start = state->clock->now();
    Outcome<HttpResponse> outcome = co_await outcome_of(once(std::move(request)));
    const auto duration =
        std::chrono::duration_cast<std::chrono::milliseconds>(state->clock->now() - start);
    const std::string server = url.server();
    const std::string through = proxy.url.empty() ? std::string() : proxy.server();
    const LogField by_proxy("proxy", through);
    const LogField milliseconds("duration_ms", duration.count());
    if (outcome) {
        HttpResponse response = std::move(outcome).value();
        state->log.write(LogLevel::debug, "http.answered",
                         {{"server", server},
                          {"method", method},
                          {"status", response.status},
                          by_proxy,
                          milliseconds});
        co_return response;
    }
    if (!outcome.cancelled()) {
        state->log.write(LogLevel::warning, "http.failed",
                         {{"server", server},
                          {"method", method},
                          {"error", logged_error(outcome.failure())},
                          by_proxy,
                          milliseconds});
    }
    std::rethrow_exception(outcome.failure());
}

Task<HttpResponse> HttpExchange::run(std::shared_ptr<const State> state, HttpRequest request) {
    check(request);
    HttpExchange exchange;
    exchange.url = detail::parse_url(request.url);
    exchange.timeouts = request.timeouts;
    exchange.total_deadline = deadline_after(state->clock->now(), request.timeouts.total);
    exchange.state = std::move(state);
    if (!request.follow_redirects) co_return co_await exchange.answer(std::move(request));

    for (int hop = 0; hop <= max_redirects; ++hop) {
        HttpRequest copy = request;
        HttpResponse response = co_await exchange.answer(std::move(copy));
        const std::string* location = response.headers.find("location");
        if (!is_redirect(response.status) || location == nullptr) co_return response;
        const RequestUrl target = detail::resolve_url(exchange.url, *location);
        redirect(request, response.status, exchange.url, target);
        exchange.url = target;
    }
    throw NetworkError(ErrorCode::protocol, exchange.url.server(), false,
                       exchange.url.server() + " redirects in a circle (more than " +
                           std::to_string(max_redirects) + " times).");
}

HttpClient::HttpClient(HttpClientOptions options) {
    auto state = std::make_shared<State>();
    state->clock = options.clock ? std::move(options.clock) : Runtime::standard()->clock;
    state->resolvers =
        options.resolvers ? std::move(options.resolvers) : Runtime::standard()->resolvers;
    if (options.resolver) {
        state->names =
            std::make_shared<detail::NameCache>(state->clock, std::move(options.resolver));
    }
    state->env = options.env ? std::move(options.env) : detail::EnvLookup(&process_env);
    state->ca_file = std::move(options.ca_file);
    if (state->ca_file.empty()) state->ca_file = state->env("SSL_CERT_FILE").value_or("");
    state->max_header_bytes = options.max_header_bytes;
    state->log = options.log ? std::move(*options.log) : Runtime::standard()->log;
    state->read_ahead_bytes = options.read_ahead_bytes;
    state_ = std::move(state);
}

HttpClient::~HttpClient() = default;

Task<HttpResponse> HttpClient::send(HttpRequest request) {
    return HttpExchange::run(state_, std::move(request));
}

std::shared_ptr<HttpTransport> transport_of(const Runtime& runtime) {
    if (runtime.transport) return runtime.transport;
    HttpClientOptions options;
    options.clock = runtime.clock;
    options.resolvers = runtime.resolvers;
    options.log = runtime.log;
    return std::make_shared<HttpClient>(std::move(options));
}

}  // namespace cubepi
