#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/json.hpp>
#include <cubepi/provider/provider.hpp>

// The recorded exchanges of tests/conformance/wire, answered from memory and cut at many places. The same for all
// providers, whose factories are in wire_cases_test.cpp.

namespace cubepi::wire {

/// Makes the provider as a case's options.constructor says, for the host "http://endpoint".
using ProviderFactory = std::function<std::shared_ptr<Provider>(const Json& constructor)>;

/// The cases whose names begin with `prefix`; those of the answers are prefixed with "responses/".
std::vector<std::string> cases_of(const std::string& prefix);
/// A name that gtest accepts.
std::string case_test_name(const ::testing::TestParamInfo<std::string>& info);

/// Plays a case in pieces of several sizes; checks request, message and events.
void expect_case_holds(const std::string& name, const ProviderFactory& make);

/// The case of that name, as stored in its file.
Json read_case(const std::string& name);

/// The result of our provider for a case's answer.
struct CaseAnswer {
    AssistantMessage message = {};
    Json body =
        {};  ///< in the endpoint's own unstreamed form, as observers receive it; null if the call failed
};
CaseAnswer answer_of_case(const Json& wire_case, const ProviderFactory& make);

/// The value under `key`, or null; `object` may be any value.
const Json* member(const Json& object, std::string_view key);
/// The string under `key`, or an empty one.
std::string text_of(const Json& object, std::string_view key);

}  // namespace cubepi::wire
