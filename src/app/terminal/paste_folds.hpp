#pragma once

#include <map>
#include <string>

namespace cubepi::app {

/// Long texts that were pasted into a field, which shows a mark in place of each: "[pasted 12 lines]".
class PasteFolds {
public:
    /// Returns the mark of a long text, which is stored, or a short text as it is.
    std::string fold(const std::string& pasted);
    /// Returns the text with the stored texts in place of their marks. Pasted texts are not searched for marks.
    std::string unfold(const std::string& text) const;
    void clear() { texts_.clear(); }

private:
    std::map<std::string, std::string> texts_;  // by their marks
};

}  // namespace cubepi::app
