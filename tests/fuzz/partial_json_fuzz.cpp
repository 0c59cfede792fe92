// JSON as written by models and other programs: only Error(parse) is thrown, values can be written and read again, and the readers
// agree if the text is JSON.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <cubepi/core/error.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/partial_json.hpp>
#include <cubepi/schema/python_json.hpp>

#include "fuzz_check.hpp"

using namespace cubepi;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    JsonTextError problem;
    const Json strict = parse_json(text, problem);
    if (!problem) {
        CUBEPI_FUZZ_CHECK(parse_json(boost::json::serialize(strict)) == strict);
        CUBEPI_FUZZ_CHECK(parse_json(to_python_json(strict)) == strict);
        CUBEPI_FUZZ_CHECK(parse_lenient(text) == strict);
    }
    try {
        const Json lenient = parse_lenient(text);
        CUBEPI_FUZZ_CHECK(parse_lenient(to_python_json(lenient)) == lenient);
    } catch (const Error& error) {
        CUBEPI_FUZZ_CHECK(error.code() == ErrorCode::parse);
        CUBEPI_FUZZ_CHECK(problem);
    }
    const ParsedArguments arguments = parse_arguments(text);
    CUBEPI_FUZZ_CHECK(arguments.problem.empty() == arguments.runnable());
    if (arguments.state == ArgumentsState::invalid) CUBEPI_FUZZ_CHECK(arguments.value.empty());
    if (!problem && strict.is_object()) {
        CUBEPI_FUZZ_CHECK(arguments.state == ArgumentsState::exact);
        CUBEPI_FUZZ_CHECK(arguments.value == strict.get_object());
    }
    CUBEPI_FUZZ_CHECK(parse_json(boost::json::serialize(arguments.value)) == Json(arguments.value));
    const std::string repaired = repair_json(text);
    CUBEPI_FUZZ_CHECK(repair_json(repaired) == repaired);
    return 0;
}
