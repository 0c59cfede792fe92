#include "highlighter.hpp"

namespace cubepi::app {

// For a build without grammars: all code is plain.
struct Highlighter::State {};

bool can_highlight() noexcept { return false; }

Highlighter::Highlighter(const CodeLanguage& /*language*/, HighlightLimits /*limits*/) {}
Highlighter::~Highlighter() = default;
Highlighter::Highlighter(Highlighter&&) noexcept = default;
Highlighter& Highlighter::operator=(Highlighter&&) noexcept = default;

std::vector<CodeSpan> Highlighter::add(std::string_view /*lines*/) { return {}; }

}  // namespace cubepi::app
