#include <cubepi/provider/wire/error_response.hpp>

#include <utility>

#include <cubepi/core/outcome.hpp>
#include <cubepi/core/timeout.hpp>

namespace cubepi::detail {

namespace {

constexpr std::size_t max_body = 64 * 1024;
/// The status alone is informative enough to stop waiting for the text.
constexpr std::chrono::seconds body_limit(10);

Task<> read_limited(HttpBody& body, Clock& clock, std::string& text) {
    const auto began = clock.now();
    bool more = true;
    while (more && text.size() < max_body) {
        const auto left = body_limit - (clock.now() - began);
        if (left.count() <= 0) break;
        Task<bool> piece = body.read(text);
        more = co_await with_timeout(clock, left, std::move(piece), "error_body");
    }
}

}  // namespace

Task<CallFailure> read_error_response(HttpResponse response, const WireProtocol& protocol,
                                      const Runtime& runtime) {
    std::string text;
    Task<> reading = read_limited(*response.body, *runtime.clock, text);
    const Outcome<> outcome = co_await outcome_of(std::move(reading));
    if (outcome.cancelled()) outcome.rethrow();
    response.body.reset();
    // Keys are removed before the text is shortened: half a key would not be recognized.
    text = protocol.without_secrets(std::move(text));
    if (const std::string* location = response.headers.find("location"))
        response.headers.set("location", protocol.without_secrets(*location));
    CallFailure failure;
    failure.endpoint = read_endpoint_failure(response.status, response.headers, text);
    failure.hints = read_retry_hints(response.headers, runtime.clock->wall());
    co_return failure;
}

}  // namespace cubepi::detail
