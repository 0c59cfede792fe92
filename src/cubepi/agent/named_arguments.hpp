#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <cubepi/agent/tool_context.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/schema/issue.hpp>
#include <cubepi/schema/json_schema.hpp>

// The parameters of a callable as the arguments of a tool: tool<"city", "days">(...).

namespace cubepi::detail {

/// The name of an argument, as a template argument: a string literal.
template <std::size_t size>
struct ArgumentName {
    char text[size] = {};

    consteval ArgumentName(const char (&literal)[size]) {
        for (std::size_t i = 0; i < size; ++i) text[i] = literal[i];
    }
    constexpr std::string_view view() const { return std::string_view(text, size - 1); }
};

/// The parameter types of a callable; unknown if it is generic or overloaded.
template <class F>
struct ParametersOf {
    static constexpr bool known = false;
    using type = std::tuple<>;
};
template <class F>
    requires requires { &F::operator(); }
struct ParametersOf<F> : ParametersOf<decltype(&F::operator())> {};
template <class R, class... P>
struct ParametersOf<R (*)(P...)> {
    static constexpr bool known = true;
    using type = std::tuple<P...>;
};
template <class R, class... P>
struct ParametersOf<R (*)(P...) noexcept> : ParametersOf<R (*)(P...)> {};
template <class R, class C, class... P>
struct ParametersOf<R (C::*)(P...)> : ParametersOf<R (*)(P...)> {};
template <class R, class C, class... P>
struct ParametersOf<R (C::*)(P...) noexcept> : ParametersOf<R (*)(P...)> {};
template <class R, class C, class... P>
struct ParametersOf<R (C::*)(P...) const> : ParametersOf<R (*)(P...)> {};
template <class R, class C, class... P>
struct ParametersOf<R (C::*)(P...) const noexcept> : ParametersOf<R (*)(P...)> {};

/// The parameters of a callable without the ToolContext& at the end.
template <class Parameters>
struct NamedParameters;
template <class... P>
struct NamedParameters<std::tuple<P...>> {
    static constexpr std::size_t all = sizeof...(P);
    static constexpr bool takes_context = [] {
        if constexpr (all == 0) {
            return false;
        } else {
            return std::is_same_v<std::tuple_element_t<all - 1, std::tuple<P...>>, ToolContext&>;
        }
    }();
    static constexpr std::size_t count = all - (takes_context ? 1 : 0);
    static constexpr bool by_value = [] {
        std::size_t references = 0;
        ((references += std::is_reference_v<P> ? 1 : 0), ...);
        return references == all - count;
    }();

    template <class Indices>
    struct Front;
    template <std::size_t... i>
    struct Front<std::index_sequence<i...>> {
        using Values =
            std::tuple<std::remove_cvref_t<std::tuple_element_t<i, std::tuple<P...>>>...>;
    };
    using Values = typename Front<std::make_index_sequence<count>>::Values;
};

/// A callable with named parameters, as one that takes `(JsonObject, ToolContext&)`.
template <class F, ArgumentName... names>
class NamedCallable {
public:
    explicit NamedCallable(F callable) : callable_(std::move(callable)) {}

    /// Fails to compile, with the reason, unless each parameter has a name and is passed by value.
    static consteval bool check() {
        constexpr bool known = ParametersOf<F>::known;
        static_assert(known,
                      "cubepi: the types of the callable's parameters must be known: no `auto`, no "
                      "overloads");
        constexpr bool named = !known || Parameters::count == sizeof...(names);
        static_assert(named,
                      "cubepi: name each parameter of the callable but a ToolContext&, as in "
                      "tool<\"city\", \"days\">(...), or pass a struct with the arguments, as in "
                      "tool<Args>(...)");
        constexpr bool distinct = are_distinct();
        static_assert(distinct, "cubepi: the names of a tool's parameters must differ");
        constexpr bool by_value = !named || Parameters::by_value;
        static_assert(by_value,
                      "cubepi: the parameters of a tool's callable are passed by value, except for "
                      "a ToolContext& at the end");
        return known && named && distinct && by_value;
    }

    /// The JSON Schema of the arguments. All but the std::optional ones are required.
    static Json schema() {
        SchemaScope scope;
        JsonObject properties;
        JsonArray required;
        for_each_type([&]<class Value>(std::string_view name, std::type_identity<Value>) {
            add_property(properties, required, name, schema_for<Value>(scope), !is_optional<Value>,
                         nullptr);
        });
        JsonObject made = typed_schema("object");
        made.insert_or_assign("properties", std::move(properties));
        if (!required.empty()) made.insert_or_assign("required", std::move(required));
        return Json(finish_schema(std::move(made), std::move(scope)));
    }

    /// Throws ValidationError if a value does not fit its C++ type.
    decltype(auto) operator()(JsonObject arguments, ToolContext& context) {
        Values values = read(arguments);
        return std::apply(
            [&](auto&... value) -> decltype(auto) {
                if constexpr (Parameters::takes_context) {
                    return callable_(std::move(value)..., context);
                } else {
                    return callable_(std::move(value)...);
                }
            },
            values);
    }

private:
    using Parameters = NamedParameters<typename ParametersOf<F>::type>;
    using Values = typename Parameters::Values;
    static constexpr std::array<std::string_view, sizeof...(names)> names_{names.view()...};

    static consteval bool are_distinct() {
        for (std::size_t i = 0; i < names_.size(); ++i) {
            for (std::size_t j = i + 1; j < names_.size(); ++j) {
                if (names_[i] == names_[j]) return false;
            }
        }
        return true;
    }

    template <class Use>
    static void for_each_type(Use use) {
        [&]<std::size_t... i>(std::index_sequence<i...>) {
            (use(names_[i], std::type_identity<std::tuple_element_t<i, Values>>()), ...);
        }(std::make_index_sequence<sizeof...(names)>());
    }

    static Values read(const JsonObject& arguments) {
        Values values;
        ReadContext context{.issues = {}};
        [&]<std::size_t... i>(std::index_sequence<i...>) {
            (read_one(arguments, names_[i], std::get<i>(values), context), ...);
        }(std::make_index_sequence<sizeof...(names)>());
        if (!context.issues.empty()) {
            throw ValidationError("the arguments do not fit:", std::move(context.issues));
        }
        return values;
    }

    template <class Value>
    static void read_one(const JsonObject& arguments, std::string_view name, Value& value,
                         ReadContext& context) {
        // The schema has been checked: an argument that is absent is optional.
        const Json* found =
            arguments.if_contains(boost::json::string_view(name.data(), name.size()));
        if (found) read_value(*found, value, ValuePath{}.child(name), context);
    }

    F callable_;
};

}  // namespace cubepi::detail
