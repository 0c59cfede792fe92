#pragma once

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/net/http_client.hpp>

#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

namespace cubepi::wire {

struct Answer {
    int status = 0;
    HttpHeaders headers;
    std::string version;
    std::string url;
    std::string body;

    Answer() {}
};

/// Sends and reads to the end.
inline Task<Answer> fetch(HttpTransport& client, HttpRequest request) {
    HttpResponse response = co_await client.send(std::move(request));
    Answer answer;
    answer.status = response.status;
    answer.headers = response.headers;
    answer.version = response.version;
    answer.url = response.url;
    for (bool more = true; more;) more = co_await response.body->read(answer.body);
    co_return answer;
}

/// The error of a fetch; `partial` is the part of the body that had arrived.
struct Failure {
    ErrorCode code = ErrorCode::unknown;
    std::string text;
    std::string timeout;
    std::string partial;
    bool cancelled = false;
    bool none = false;
};

inline Task<> fetch_into(HttpTransport& client, HttpRequest request, std::string& body) {
    HttpResponse response = co_await client.send(std::move(request));
    for (bool more = true; more;) more = co_await response.body->read(body);
}

inline Failure failure_of(const std::exception_ptr& thrown) {
    Failure failure;
    failure.none = !thrown;
    if (failure.none) return failure;
    failure.cancelled = is_cancellation(thrown);
    try {
        std::rethrow_exception(thrown);
    } catch (const TimeoutError& error) {
        failure.code = error.code();
        failure.text = error.what();
        failure.timeout = error.timeout();
    } catch (const Error& error) {
        failure.code = error.code();
        failure.text = error.what();
    } catch (const std::exception& error) {
        failure.text = error.what();
    }
    return failure;
}

template <class Runner>
Failure try_fetch(HttpTransport& client, HttpRequest request, Runner runner) {
    std::string body;
    std::exception_ptr thrown;
    try {
        runner(fetch_into(client, std::move(request), body));
    } catch (...) {
        thrown = std::current_exception();
    }
    Failure failure = failure_of(thrown);
    failure.partial = std::move(body);
    return failure;
}

inline Failure try_fetch(HttpTransport& client, HttpRequest request) {
    return try_fetch(client, std::move(request), [](Task<> task) { run(std::move(task)); });
}

/// Fetches, aborted when `stop` is requested.
inline Failure try_fetch(HttpTransport& client, HttpRequest request, std::stop_source stop) {
    return try_fetch(client, std::move(request),
                     [stop](Task<> task) { run(cancel_on(stop.get_token(), std::move(task))); });
}

/// Options with the environment `env`.
inline HttpClientOptions with_env(std::map<std::string, std::string> env = {}) {
    HttpClientOptions options;
    options.env = [env = std::move(env)](const std::string& name) -> std::optional<std::string> {
        const auto found = env.find(name);
        if (found == env.end()) return std::nullopt;
        return found->second;
    };
    return options;
}

}  // namespace cubepi::wire
