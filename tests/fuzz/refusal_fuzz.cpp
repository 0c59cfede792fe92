// Any refusal of an endpoint: the reason is valid UTF-8 that can be stored, and the wait is a number.
// The first line is a header's value, the rest the body.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <cubepi/net/retry.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/provider/error_classification.hpp>

#include "fuzz_check.hpp"

using namespace cubepi;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    const std::size_t feed = std::min(bytes.find('\n'), size);
    const std::string value(bytes.substr(0, feed));
    const std::string_view body = bytes.substr(std::min(feed + 1, size));
    for (const char* name :
         {"retry-after", "retry-after-ms", "x-ratelimit-reset", "date", "location"}) {
        HttpHeaders headers;
        headers.add(name, value);
        if (std::string_view(name) == "date")
            headers.add("retry-after", "Sun, 06 Nov 1994 08:49:57 GMT");
        const RetryHints hints = read_retry_hints(headers, std::chrono::system_clock::time_point());
        if (hints.delay) CUBEPI_FUZZ_CHECK(hints.delay->count() >= 0);
        for (const int status : {302, 400, 403, 404, 429, 500}) {
            const EndpointFailure failure = read_endpoint_failure(status, headers, body, hints);
            CUBEPI_FUZZ_CHECK(!failure.message.empty());
            CUBEPI_FUZZ_CHECK(is_utf8(failure.message));
            const ErrorInfo info = classify_failure(failure, std::nullopt, std::nullopt);
            CUBEPI_FUZZ_CHECK(!info.type.empty());
            CUBEPI_FUZZ_CHECK(is_utf8(info.provider_code));
            if (info.retry_after) {
                CUBEPI_FUZZ_CHECK(std::isfinite(*info.retry_after) && *info.retry_after >= 0);
            }
            const std::string hidden = without_secret(failure.message, "secret");
            CUBEPI_FUZZ_CHECK(hidden.find("secret") == std::string::npos);
        }
    }
    return 0;
}
