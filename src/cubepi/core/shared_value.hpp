#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include <cubepi/core/detail/ref_count.hpp>

namespace cubepi {

/// An immutable value that is nearly always absent, in one word; copies share it. Distinct copies may be used from
/// different threads.
template <class T>
class SharedValue {
public:
    SharedValue() noexcept = default;
    SharedValue(std::nullptr_t) noexcept {}
    SharedValue(T value) : rep_(new Rep(std::move(value))) {}
    SharedValue(const std::shared_ptr<const T>& value) : rep_(value ? new Rep(*value) : nullptr) {}
    SharedValue(const SharedValue& other) noexcept : rep_(other.rep_) {
        if (rep_) rep_->refs.retain();
    }
    SharedValue(SharedValue&& other) noexcept : rep_(std::exchange(other.rep_, nullptr)) {}
    SharedValue& operator=(SharedValue other) noexcept {
        std::swap(rep_, other.rep_);
        return *this;
    }
    ~SharedValue() {
        if (rep_ && rep_->refs.release()) delete rep_;
    }

    explicit operator bool() const noexcept { return rep_ != nullptr; }
    const T* get() const noexcept { return rep_ ? &rep_->value : nullptr; }
    const T& operator*() const noexcept { return rep_->value; }
    const T* operator->() const noexcept { return &rep_->value; }

    /// Returns true if the values are equal or both absent.
    friend bool operator==(const SharedValue& a, const SharedValue& b) {
        return a.rep_ == b.rep_ || (a.rep_ && b.rep_ && a.rep_->value == b.rep_->value);
    }
    friend bool operator==(const SharedValue& a, std::nullptr_t) noexcept { return !a.rep_; }

private:
    struct Rep {
        explicit Rep(T v) : value(std::move(v)) {}
        detail::RefCount refs;
        T value;
    };
    Rep* rep_ = nullptr;
};

}  // namespace cubepi
