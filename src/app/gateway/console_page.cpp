#include "console_page.hpp"

namespace cubepi::app {

namespace {

// As numbers: a string literal may not be as long.
constexpr unsigned char page[] = {
#include "console_index_html.inc"
};
constexpr unsigned char script[] = {
#include "console_app_js.inc"
};
constexpr unsigned char style[] = {
#include "console_app_css.inc"
};

template <std::size_t size>
std::string_view text_of(const unsigned char (&bytes)[size]) {
    return std::string_view(reinterpret_cast<const char*>(bytes), size);
}

}  // namespace

std::span<const ConsoleFile> console_files() {
    static const ConsoleFile files[] = {
        {"", "text/html; charset=utf-8", text_of(page)},
        {"app.js", "text/javascript; charset=utf-8", text_of(script)},
        {"app.css", "text/css; charset=utf-8", text_of(style)},
    };
    return files;
}

}  // namespace cubepi::app
