#pragma once

#include <compare>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/detail/ref_count.hpp>

namespace cubepi {

/// An immutable string of one word, shared by all its copies. For texts that many values repeat (run ids,
/// model ids, tool names): a copy costs a reference count, an empty one nothing.
/// Distinct copies may be used from different threads.
class SharedString {
public:
    SharedString() noexcept = default;
    SharedString(std::string value) : rep_(value.empty() ? nullptr : new Rep(std::move(value))) {}
    SharedString(std::string_view value) : SharedString(std::string(value)) {}
    SharedString(const char* value) : SharedString(std::string(value)) {}
    SharedString(const SharedString& other) noexcept : rep_(other.rep_) { retain(); }
    SharedString(SharedString&& other) noexcept : rep_(std::exchange(other.rep_, nullptr)) {}
    SharedString& operator=(SharedString other) noexcept {
        std::swap(rep_, other.rep_);
        return *this;
    }
    ~SharedString() { release(); }

    const std::string& str() const noexcept { return rep_ ? rep_->value : empty_string(); }
    operator const std::string&() const noexcept { return str(); }
    operator std::string_view() const noexcept { return str(); }
    const char* c_str() const noexcept { return str().c_str(); }
    bool empty() const noexcept { return rep_ == nullptr; }
    std::size_t size() const noexcept { return str().size(); }

    friend bool operator==(const SharedString& a, const SharedString& b) noexcept {
        return a.rep_ == b.rep_ || a.str() == b.str();
    }
    friend bool operator==(const SharedString& a, std::string_view b) noexcept {
        return a.str() == b;
    }
    friend bool operator==(const SharedString& a, const std::string& b) noexcept {
        return a.str() == b;
    }
    friend bool operator==(const SharedString& a, const char* b) noexcept { return a.str() == b; }
    friend std::string operator+(const SharedString& a, std::string_view b) {
        return std::string(a.str()).append(b);
    }
    friend std::string operator+(std::string_view a, const SharedString& b) {
        return std::string(a).append(b.str());
    }
    friend std::ostream& operator<<(std::ostream& out, const SharedString& s) {
        return out << s.str();
    }

private:
    struct Rep {
        explicit Rep(std::string v) : value(std::move(v)) {}
        detail::RefCount refs;
        std::string value;
    };
    static const std::string& empty_string() noexcept {
        static const std::string empty;
        return empty;
    }
    void retain() noexcept {
        if (rep_) rep_->refs.retain();
    }
    void release() noexcept {
        if (rep_ && rep_->refs.release()) delete rep_;
    }

    Rep* rep_ = nullptr;
};

/// A shared string of that text: the one that this thread made last of it, where it remembers. For names that come as
/// text and that every message repeats: of models, providers, tools.
SharedString shared_name(std::string_view text);

}  // namespace cubepi
