// The official test suite of JSON Schema, draft 2020-12; tests/json_schema_suite/README.md says which part of it.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/validate/schema_checker.hpp>

#include "source_tree.hpp"

namespace cubepi {
namespace {

constexpr int enough_steps = 1000000;

// Groups whose schemas refer to a meta-schema or another document on the network.
const std::set<std::string> unsupported_groups = {
    "defs: validate definition against metaschema",
    "dynamicRef: $ref and $dynamicAnchor are independent of order - $defs first",
    "dynamicRef: $ref and $dynamicAnchor are independent of order - $ref first",
    "dynamicRef: $ref to $dynamicRef finds detached $dynamicAnchor",
    "dynamicRef: strict-tree schema, guards against misspelled properties",
    "dynamicRef: tests for implementation dynamic anchor and reference link",
    "ref: remote ref, containing refs itself",
    "vocabulary: schema that uses custom metaschema with with no validation vocabulary",
};

std::vector<std::filesystem::path> suite_files() {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(
             cubepi::testing::source_path("tests/json_schema_suite/draft2020-12")))
        files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
}

Json read(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return parse_json(std::string(std::istreambuf_iterator<char>(in), {}));
}

// Calls `f(name, schema, tests)` for each group of tests.
template <class F>
void each_group(F&& f) {
    for (const auto& path : suite_files()) {
        const Json groups = read(path);
        for (const auto& group : groups.as_array()) {
            const std::string name =
                path.stem().string() + ": " + std::string(group.at("description").as_string());
            f(name, group.at("schema"), group.at("tests").as_array());
        }
    }
}

TEST(JsonSchemaSuite, RequiredTests_PassInBothModes) {
    std::size_t passed = 0;
    each_group([&](const std::string& name, const Json& schema, const JsonArray& tests) {
        if (unsupported_groups.count(name) != 0) return;
        const detail::CompiledSchema compiled(schema);
        for (const auto& test : tests) {
            const Json& data = test.at("data");
            const bool valid = test.at("valid").as_bool();
            const auto issues = detail::SchemaChecker(enough_steps).explain(compiled.root(), data);
            EXPECT_EQ(detail::SchemaChecker(enough_steps).fits(compiled.root(), data), valid)
                << name << ": " << test.at("description");
            EXPECT_EQ(issues.empty(), valid) << name << ": " << test.at("description");
            ++passed;
        }
    });
    EXPECT_EQ(passed, 1206U);
}

TEST(JsonSchemaSuite, ReferencesToOtherDocuments_AreRefused) {
    std::set<std::string> refused = {
        // Its "$schema" names a meta-schema without validation, which is not fetched, and has no "$ref".
        "vocabulary: schema that uses custom metaschema with with no validation vocabulary"};
    each_group([&](const std::string& name, const Json& schema, const JsonArray&) {
        try {
            const detail::CompiledSchema compiled(schema);
        } catch (const Error& error) {
            EXPECT_NE(std::string_view(error.what()).find("references to other documents"),
                      std::string_view::npos)
                << name << ": " << error.what();
            refused.insert(name);
        }
    });
    EXPECT_EQ(refused, unsupported_groups);
}

}  // namespace
}  // namespace cubepi
