// A language and code, in lines of any length: the pieces of the code are in order, do not overlap and are inside of it.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "fuzz_check.hpp"
#include "highlight/highlighter.hpp"

namespace {

using namespace cubepi::app;

constexpr std::array<std::string_view, 13> names = {
    "bash", "c", "cpp", "css", "go", "html", "java", "js", "json", "python", "rust", "ts", "yaml"};

void check(const std::vector<CodeSpan>& spans, std::size_t size) {
    std::size_t at = 0;
    for (const CodeSpan& span : spans) {
        CUBEPI_FUZZ_CHECK(at <= span.begin);
        CUBEPI_FUZZ_CHECK(span.begin < span.end);
        CUBEPI_FUZZ_CHECK(span.role != CodeRole::plain);
        at = span.end;
    }
    CUBEPI_FUZZ_CHECK(at <= size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    std::string_view code(reinterpret_cast<const char*>(data) + 1, size - 1);
    const CodeLanguage* const language = language_of_fence(names[data[0] % names.size()]);
    CUBEPI_FUZZ_CHECK(language != nullptr);
    HighlightLimits limits;
    limits.time = std::chrono::microseconds(0);
    check(Highlighter(*language, limits).add(code), code.size());
    Highlighter by_line(*language, limits);
    while (!code.empty()) {
        const std::string_view line =
            code.substr(0, std::min(code.find('\n'), code.size() - 1) + 1);
        check(by_line.add(line), line.size());
        code.remove_prefix(line.size());
    }
    return 0;
}
