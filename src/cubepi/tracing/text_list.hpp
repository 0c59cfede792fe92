#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <cubepi/core/detail/ref_count.hpp>
#include <cubepi/core/shared_string.hpp>

namespace cubepi {

/// An immutable list of strings of one word, shared by all its copies. Distinct copies may be used from different threads.
class TextList {
public:
    TextList() noexcept = default;
    TextList(std::vector<SharedString> texts)
        : rep_(texts.empty() ? nullptr : new Rep(std::move(texts))) {}
    TextList(const TextList& other) noexcept : rep_(other.rep_) {
        if (rep_) rep_->refs.retain();
    }
    TextList(TextList&& other) noexcept : rep_(std::exchange(other.rep_, nullptr)) {}
    TextList& operator=(TextList other) noexcept {
        std::swap(rep_, other.rep_);
        return *this;
    }
    ~TextList() {
        if (rep_ && rep_->refs.release()) delete rep_;
    }

    const SharedString* begin() const noexcept { return rep_ ? rep_->texts.data() : nullptr; }
    const SharedString* end() const noexcept { return begin() + size(); }
    std::size_t size() const noexcept { return rep_ ? rep_->texts.size() : 0; }
    bool empty() const noexcept { return rep_ == nullptr; }

    friend bool operator==(const TextList& a, const TextList& b) noexcept {
        return a.rep_ == b.rep_ || std::equal(a.begin(), a.end(), b.begin(), b.end());
    }

private:
    struct Rep {
        explicit Rep(std::vector<SharedString> all) : texts(std::move(all)) {}
        detail::RefCount refs;
        std::vector<SharedString> texts;
    };

    Rep* rep_ = nullptr;
};

}  // namespace cubepi
