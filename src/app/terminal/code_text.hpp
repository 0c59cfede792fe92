#pragma once

#include <string_view>
#include <vector>

#include "../highlight/highlighter.hpp"
#include "terminal_stream.hpp"
#include "terminal_text.hpp"

namespace cubepi::app {

/// `code` with its pieces in color. `base`: the style of the line, which its plain pieces have and the others continue.
TerminalText code_text(const TerminalText& code, const std::vector<CodeSpan>& spans,
                       const Style& style, TerminalView base = {});

}  // namespace cubepi::app
