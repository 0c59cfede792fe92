#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <cubepi/core/compact_values.hpp>
#include <cubepi/core/shared_string.hpp>

namespace cubepi {

/// An immutable list of strings in one word; copies share it. Distinct copies may be used from different threads.
class TextList {
public:
    TextList() noexcept = default;
    TextList(std::vector<SharedString> texts) {
        if (!texts.empty()) texts_ = std::move(texts);
    }

    const SharedString* begin() const noexcept { return texts_ ? texts_->data() : nullptr; }
    const SharedString* end() const noexcept { return begin() + size(); }
    std::size_t size() const noexcept { return texts_ ? texts_->size() : 0; }
    bool empty() const noexcept { return !texts_; }

    friend bool operator==(const TextList& a, const TextList& b) = default;

private:
    SharedValue<std::vector<SharedString>> texts_;
};

}  // namespace cubepi
