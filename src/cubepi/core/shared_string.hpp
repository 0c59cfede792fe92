#pragma once

#include <array>
#include <atomic>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

namespace cubepi::detail {

/// The number of handles that share an object; initially one. Counts without atomic instructions as long as the process
/// is single-threaded, like std::shared_ptr.
class RefCount {
public:
    void retain() noexcept {
        if (single_threaded()) {
            count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        } else {
            count_.fetch_add(1, std::memory_order_relaxed);
        }
    }
    /// Returns true if that was the last handle.
    bool release() noexcept {
        // The only holder need not synchronize with others.
        if (is_one()) return true;
        if (single_threaded()) {
            count_.store(count_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
            return false;
        }
        return count_.fetch_sub(1, std::memory_order_acq_rel) == 1;
    }
    bool is_one() const noexcept { return count_.load(std::memory_order_acquire) == 1; }

private:
    static bool single_threaded() noexcept {
#if __has_include(<sys/single_threaded.h>)
        return __libc_single_threaded;
#else
        return false;
#endif
    }

    std::atomic<std::uint32_t> count_{1};
};

}  // namespace cubepi::detail

namespace cubepi {

/// An immutable string of one word, shared by all its copies. For texts that many values repeat (run ids, model ids,
/// tool names): a copy costs a reference count, an empty string nothing. Compares with strings of every kind, has the
/// same hash, and converts to `const std::string&` and `std::string_view`; otherwise use str(). Distinct copies may be
/// used from different threads.
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
    bool starts_with(std::string_view text) const noexcept { return str().starts_with(text); }
    bool ends_with(std::string_view text) const noexcept { return str().ends_with(text); }
    bool contains(std::string_view text) const noexcept {
        return str().find(text) != std::string::npos;
    }

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
    /// Compares by bytes, like std::string.
    template <std::convertible_to<std::string_view> T>
    friend std::strong_ordering operator<=>(const SharedString& a, const T& b) noexcept {
        return std::string_view(a.str()) <=> std::string_view(b);
    }
    friend std::string operator+(const SharedString& a, std::string_view b) {
        return std::string(a.str()).append(b);
    }
    friend std::string operator+(std::string_view a, const SharedString& b) {
        return std::string(a).append(b.str());
    }
    friend std::ostream& operator<<(std::ostream& out, const SharedString& s) {
        return out << s.str();
    }
    /// Supports fmt 10 and newer; with std::format and older versions, format str().
    friend const std::string& format_as(const SharedString& s) noexcept { return s.str(); }

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

/// Returns a shared string of that text, reusing one recently created on this thread if possible. For names that arrive
/// as text and recur in every message: of models, providers, tools.
inline SharedString shared_name(std::string_view text) {
    if (text.empty()) return SharedString();
    thread_local std::array<SharedString, 16> recent;
    const auto last = static_cast<unsigned char>(text.back());
    SharedString& place = recent[(text.size() * 7 + last) % recent.size()];
    if (!(place == text)) place = SharedString(text);
    return place;
}

}  // namespace cubepi

/// Same hash as std::string and std::string_view.
template <>
struct std::hash<cubepi::SharedString> {
    std::size_t operator()(const cubepi::SharedString& text) const noexcept {
        return std::hash<std::string_view>()(text.str());
    }
};
