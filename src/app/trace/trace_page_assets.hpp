#pragma once

#include <string_view>

namespace cubepi::app {

// The constant parts of trace_page().

extern const std::string_view trace_page_style;
extern const std::string_view trace_page_body;
extern const std::string_view trace_page_script;

}  // namespace cubepi::app
