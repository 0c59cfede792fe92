#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include <cubepi/core/json.hpp>

namespace cubepi {

/// A JSON object that is nearly always empty, stored in one word. Has the value semantics of JsonObject.
class LazyObject {
public:
    LazyObject() noexcept = default;
    LazyObject(JsonObject object)
        : object_(object.empty() ? nullptr : std::make_unique<JsonObject>(std::move(object))) {}
    LazyObject(const LazyObject& other)
        : object_(other.empty() ? nullptr : std::make_unique<JsonObject>(*other.object_)) {}
    LazyObject(LazyObject&&) noexcept = default;
    LazyObject& operator=(LazyObject other) noexcept {
        object_ = std::move(other.object_);
        return *this;
    }
    ~LazyObject() = default;

    bool empty() const noexcept { return !object_ || object_->empty(); }
    /// Returns the value under `key`, or null if absent.
    const Json* find(std::string_view key) const noexcept {
        return object_ ? object_->if_contains(key) : nullptr;
    }
    /// Returns the value under `key`; inserts null if absent.
    Json& operator[](std::string_view key) { return edit()[key]; }
    /// Preserves the order of the other keys.
    void erase(std::string_view key) {
        if (object_) object_->stable_erase(key);
    }
    const JsonObject& get() const noexcept {
        static const JsonObject none;
        return object_ ? *object_ : none;
    }
    JsonObject& edit() {
        if (!object_) object_ = std::make_unique<JsonObject>();
        return *object_;
    }

    friend bool operator==(const LazyObject& a, const LazyObject& b) { return a.get() == b.get(); }

private:
    std::unique_ptr<JsonObject> object_;
};

}  // namespace cubepi
