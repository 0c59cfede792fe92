#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>

namespace bub {

/// The state that plugins share during one turn: JSON values by key, objects ("services") by type, and the cleanup to
/// run at the end. Built by load_state, visible to every later hook, destroyed after the turn. Used on the turn's
/// executor.
class TurnState {
public:
    /// The key of the workspace's absolute path; a plugin may replace the value.
    static constexpr std::string_view workspace_key = "_runtime_workspace";

    TurnState() = default;
    TurnState(TurnState&&) = default;
    // A JsonObject may have to allocate. NOLINTNEXTLINE(performance-noexcept-move-constructor)
    TurnState& operator=(TurnState&&) = default;

    cubepi::JsonObject values;

    /// Returns a state for a nested turn: a copy with the same values and services, which the nested turn may change
    /// for itself.
    TurnState child() const;

    /// Returns the text under `key`; empty if absent.
    std::string text(std::string_view key) const;

    /// Returns the service of this type, or null.
    template <class T>
    std::shared_ptr<T> service() const noexcept {
        return std::static_pointer_cast<T>(find(type_key<T>()));
    }
    /// Offers a service to the later hooks. The first one of a type is used, so that in load_state the plugin of higher
    /// precedence wins. Returns true if the object was accepted.
    template <class T>
    bool offer(std::shared_ptr<T> object) {
        if (find(type_key<T>())) return false;
        services_.emplace_back(type_key<T>(), std::move(object));
        return true;
    }
    /// Replaces the service of this type.
    template <class T>
    void replace(std::shared_ptr<T> object) {
        erase(type_key<T>());
        services_.emplace_back(type_key<T>(), std::move(object));
    }

    /// Runs `work` when the turn ends, on every path (success, failure, cancellation), last registered first. `error`
    /// is the turn's failure, or null. Register the work before awaiting the operation that it undoes.
    using Closer = std::function<cubepi::Task<>(std::exception_ptr error)>;
    void at_end(Closer work) { closers_.push_back(std::move(work)); }
    // For the kernel.
    bool has_closers() const noexcept { return !closers_.empty(); }
    std::vector<Closer> take_closers() noexcept { return std::exchange(closers_, {}); }

    /// Marks this turn's messages as already recorded on the tape, so that the kernel does not record them (B20).
    void mark_recorded() noexcept { recorded_ = true; }
    bool recorded() const noexcept { return recorded_; }

    /// Suppresses the output of this turn because another turn has produced it: nothing is rendered.
    void mark_silent() noexcept { silent_ = true; }
    bool silent() const noexcept { return silent_; }

private:
    using TypeKey = const void*;
    template <class T>
    static TypeKey type_key() noexcept {
        static constexpr char key = 0;
        return &key;
    }
    std::shared_ptr<void> find(TypeKey key) const noexcept;
    void erase(TypeKey key) noexcept;

    std::vector<std::pair<TypeKey, std::shared_ptr<void>>> services_;
    std::vector<Closer> closers_;
    bool recorded_ = false;
    bool silent_ = false;
};

}  // namespace bub
