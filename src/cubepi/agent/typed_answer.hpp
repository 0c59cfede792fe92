#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cubepi/agent/run_result.hpp>
#include <cubepi/core/agent_event.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/provider/structured.hpp>
#include <cubepi/schema/json_convert.hpp>
#include <cubepi/schema/json_schema.hpp>

namespace cubepi {

/// The result of a run that was to answer with a value of a C++ type: `if (result) use(result->steps);`. It has a value if
/// the run completed. If the answer is still invalid after the retries, or was refused or truncated, the outcome is `failed`
/// and `error()` is a StructuredOutputError.
template <class T>
struct TypedResult : RunResult {
    TypedResult() = default;
    explicit TypedResult(RunResult result) : RunResult(std::move(result)) {}
    std::optional<T> value = {};

    /// The value. Throws Error(invalid_state) with the reason if there is none.
    const T& operator*() const { return checked(), *value; }
    T& operator*() { return checked(), *value; }
    const T* operator->() const { return checked(), &*value; }
    T* operator->() { return checked(), &*value; }

private:
    void checked() const {
        if (!value) {
            throw Error(ErrorCode::invalid_state,
                        std::string("the run has no answer: ") + error().what());
        }
    }
};

namespace detail {

/// A request for an answer of a certain form.
struct AnswerRequest {
    Json schema = {};
    StructuredReader read = {};
};

/// Returns the request for a `T`, which is assigned to `value`.
template <class T>
AnswerRequest answer_request(std::shared_ptr<std::optional<T>> value) {
    AnswerRequest request;
    request.schema = json_schema_of<T>();
    request.read = [value = std::move(value)](const Json& json) {
        ReadOptions lenient;
        lenient.require_fields = false;
        T made{};
        std::vector<SchemaIssue> issues = try_from_json(json, made, lenient);
        if (issues.empty()) *value = std::move(made);
        return issues;
    };
    return request;
}

template <class T>
Task<TypedResult<T>> typed_result(Task<RunResult> work, std::shared_ptr<std::optional<T>> value) {
    RunResult result = co_await std::move(work);
    TypedResult<T> typed(std::move(result));
    if (typed) typed.value = std::move(*value);
    co_return typed;
}

/// Collects the text of an answer while it is streamed.
class AnswerText {
public:
    explicit AnswerText(std::string name) : name_(std::move(name)) {}
    /// Returns true if the event has extended the text.
    bool extend(const AgentEvent& event);
    /// Parses the text so far. Returns nothing if it is not the beginning of an object. `wrapped`: the value is the only
    /// property of the object, because it is not an object itself.
    std::optional<Json> parse(bool wrapped) const;

private:
    std::string name_;
    std::string text_;
    std::int32_t block_ = -1;
};

}  // namespace detail

/// Reads a typed answer while it is streamed. Pass each event of the run to update():
///
///     PartialAnswer<Plan> plan;
///     agent.subscribe([&](const AgentEvent& event) {
///         if (const Plan* so_far = plan.update(event)) draw(*so_far);
///     });
///
/// Fields that have not arrived have the values of a default-constructed object, and a text may be incomplete: nothing is
/// validated before the end. Each update parses the text so far.
template <class T>
class PartialAnswer {
public:
    /// `name`: StructuredOptions::name(), if it is set.
    explicit PartialAnswer(std::string name = "structured_output") : text_(std::move(name)) {}

    /// Returns the value so far if the event has extended it, else null. Valid until the next update.
    const T* update(const AgentEvent& event) {
        if (!text_.extend(event)) return nullptr;
        constexpr bool is_object = std::is_same_v<JsonFor<T>, JsonObject>;
        const std::optional<Json> so_far = text_.parse(!is_object);
        if (!so_far) return nullptr;
        ReadOptions lenient;
        lenient.require_fields = false;
        value_ = T{};
        // A value that has not arrived completely may not fit yet.
        (void)try_from_json(*so_far, value_, lenient);
        return &value_;
    }

private:
    detail::AnswerText text_;
    T value_ = {};
};

}  // namespace cubepi
