#include <cubepi/schema/validate.hpp>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/validate/schema_checker.hpp>

using namespace cubepi;

namespace {

Json json(std::string_view text) { return parse_json(text); }

std::string lines(const std::vector<SchemaIssue>& issues) {
    std::string text;
    for (const auto& issue : issues) text += issue.path + ": " + issue.message + "\n";
    return text;
}

// Returns the issues of a value, or the value as changed by validation.
std::string result(std::string_view schema, std::string_view value) {
    Json checked = json(value);
    const auto issues = JsonSchema(json(schema)).validate(checked);
    return issues.empty() ? boost::json::serialize(checked) : lines(issues);
}

std::string compile_problem(std::string_view schema) {
    try {
        JsonSchema(json(schema)).compile();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        return error.what();
    }
    return "compiles";
}

constexpr std::string_view weather = R"({"type":"object","properties":{
    "city":{"type":"string"},"days":{"type":"integer","default":3,"minimum":1},
    "unit":{"enum":["c","f"]},"where":{"type":"object","properties":{"zoom":{"type":"number","default":1.5}}},
    "tags":{"type":"array","items":{"type":"string"}}},
    "required":["city"],"additionalProperties":false})";

}  // namespace

TEST(Validate, Defaults_AreFilledAtEveryLevel) {
    EXPECT_EQ(result(weather, R"({"city":"x"})"), R"({"city":"x","days":3})");
    EXPECT_EQ(result(weather, R"({"city":"x","where":{}})"),
              R"({"city":"x","where":{"zoom":1.5E0},"days":3})");
    EXPECT_EQ(
        result(
            R"({"properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"string","default":"d"}}})",
            "{}"),
        R"({"a":"d"})");
    EXPECT_EQ(
        result(R"({"type":"array","items":{"properties":{"n":{"default":0}}}})", "[{},{\"n\":1}]"),
        R"([{"n":0},{"n":1}])");
}

TEST(Validate, Issues_NameProblemAndPlace) {
    EXPECT_EQ(result(weather,
                     R"({"days":"abc","unit":"k","where":{"zoom":[]},"tags":["a",2],"foo":null})"),
              "city: field required\n"
              "days: expected integer, found string \"abc\"\n"
              "unit: must be one of \"c\", \"f\"; found string \"k\"\n"
              "where.zoom: expected number, found array of 0 items\n"
              "tags[1]: expected string, found integer 2\n"
              "foo: unexpected field\n");
    EXPECT_EQ(result(weather, "[]"), "<root>: expected object, found array of 0 items\n");
    EXPECT_EQ(result(weather, R"({"city":"x","days":0})"),
              "days: expected at least 1, found integer 0\n");
    EXPECT_EQ(result(weather, R"({"city":"x","days":1e20})"),
              "days: expected integer, found number 1e+20\n");
}

TEST(Validate, AllOfWithTrue_ChangesNoResult) {
    const std::string_view schemas[] = {
        weather,
        R"({"type":"integer"})",
        R"({"type":"number","maximum":3})",
        R"({"enum":[1,"a",null]})",
        R"({"anyOf":[{"type":"integer"},{"type":"null"}]})",
        R"({"anyOf":[{"type":"number"},{"type":"integer"}]})",
        R"({"type":"array","items":{"type":"integer","minimum":0}})",
        R"({"type":["string","integer"]})",
        R"({"properties":{"a":{"default":"x","type":"integer"}}})",
        R"({"properties":{"a":{"type":"object","default":{},"properties":{"b":{"type":"integer","default":1}}}}})",
        R"({"type":"object","required":["zz"]})"};
    const std::string_view values[] = {
        "1",
        "3.0",
        "3.5",
        "\"3\"",
        "\"a\"",
        "null",
        "true",
        "[]",
        "[1,2.0]",
        "[-1]",
        "{}",
        R"({"a":1})",
        R"({"a":{}})",
        R"({"city":"x","days":2,"unit":"c","where":{"zoom":2},"tags":["q"]})",
        R"({"city":"x","tags":"q"})",
        R"({"city":"x","more":1})",
        R"({"zz":1})",
        "18446744073709551615",
        "-1",
        "1e300"};
    for (const auto schema : schemas) {
        Json full = json(schema);
        full.as_object()["allOf"] = JsonArray(1, Json(true));
        for (const auto value : values) {
            Json checked = json(value);
            const auto issues = JsonSchema(full).validate(checked);
            EXPECT_EQ(result(schema, value),
                      issues.empty() ? boost::json::serialize(checked) : lines(issues))
                << schema << " " << value;
        }
    }
}

TEST(Validate, D4_Conversion_HappensOnlyIfTheSchemaRequiresIt) {
    EXPECT_EQ(result(weather, R"({"city":"5","days":"4"})"), R"({"city":"5","days":4})");
    EXPECT_EQ(result(weather, R"({"city":"5","days":4.0})"), R"({"city":"5","days":4})");
    EXPECT_EQ(result(R"({"type":"boolean"})", "\"true\""), "true");
    EXPECT_EQ(result(R"({"type":"boolean"})", "1"), "<root>: expected boolean, found integer 1\n");
    EXPECT_EQ(result(R"({"type":["integer","string"]})", "\"4\""), "\"4\"");
    EXPECT_EQ(result(R"({"type":"number"})", "\"4.5\""), "4.5E0");
    EXPECT_EQ(result(R"({"type":"string"})", "4"), "<root>: expected string, found integer 4\n");
    EXPECT_EQ(result(R"({"type":"array","items":{"type":"integer"}})", "4"),
              "<root>: expected array, found integer 4\n");
    EXPECT_EQ(result(R"({"additionalProperties":{"type":"integer"}})", R"({"a":"1"})"),
              R"({"a":1})");
    EXPECT_EQ(result(R"({"type":"integer"})", "\"4.5\""),
              "<root>: expected integer, found string \"4.5\"\n");
}

TEST(Validate, Alternatives_AreConvertedOnlyWithoutAMatch) {
    constexpr std::string_view optional = R"({"anyOf":[{"type":"integer"},{"type":"null"}]})";
    EXPECT_EQ(result(optional, "null"), "null");
    EXPECT_EQ(result(optional, "\"7\""), "7");
    EXPECT_EQ(result(optional, "\"x\""), "<root>: expected integer or null, found string \"x\"\n");
    EXPECT_EQ(result(R"({"anyOf":[{"type":"integer"},{"type":"string"}]})", "\"7\""), "\"7\"");
    EXPECT_EQ(
        result(R"({"anyOf":[{"type":"object","properties":{"a":{"type":"integer","default":1}},
        "required":["b"]},{"type":"null"}]})",
               R"({"b":0})"),
        R"({"b":0,"a":1})");
    EXPECT_EQ(result(R"({"anyOf":[{"type":"object","required":["b"]},{"type":"null"}]})", "{}"),
              "b: field required\n");
}

TEST(Validate, TaggedUnion_ReportsTheSelectedAlternative) {
    constexpr std::string_view pets = R"({"oneOf":[
        {"type":"object","properties":{"kind":{"const":"cat"},"lives":{"type":"integer"}},"required":["kind","lives"]},
        {"type":"object","properties":{"kind":{"const":"dog"},"name":{"type":"string"}},"required":["kind","name"]}]})";
    EXPECT_EQ(result(pets, R"({"kind":"dog","name":"x"})"), R"({"kind":"dog","name":"x"})");
    EXPECT_EQ(result(pets, R"({"kind":"dog"})"), "name: field required\n");
    EXPECT_EQ(result(pets, R"({"kind":"cow"})"),
              "kind: must be one of \"cat\", \"dog\"; found string \"cow\"\n");
    EXPECT_EQ(result(pets, "{}"), "kind: field required, one of \"cat\", \"dog\"\n");
}

TEST(Validate, Draft7AndCommonNewerKeywords_AreKnown) {
    const auto fits = [](std::string_view schema, std::string_view value) {
        Json checked = json(value);
        return JsonSchema(json(schema)).validate(checked).empty();
    };
    EXPECT_TRUE(fits(R"({"minLength":2,"maxLength":2})", "\"\xC3\xA9\xC3\xA9\""));
    EXPECT_FALSE(fits(R"({"maxLength":2})", "\"abc\""));
    EXPECT_FALSE(fits(R"({"exclusiveMinimum":1})", "1"));
    EXPECT_FALSE(fits(R"({"minimum":1,"exclusiveMinimum":true})", "1"));
    EXPECT_TRUE(fits(R"({"minimum":1,"exclusiveMinimum":true})", "2"));
    EXPECT_TRUE(fits(R"({"multipleOf":0.1})", "0.3"));
    EXPECT_FALSE(fits(R"({"multipleOf":2})", "4.5"));
    EXPECT_TRUE(
        fits(R"({"prefixItems":[{"type":"integer"}],"items":{"type":"string"}})", "[1,\"a\"]"));
    EXPECT_FALSE(
        fits(R"({"prefixItems":[{"type":"integer"}],"items":{"type":"string"}})", "[1,2]"));
    EXPECT_FALSE(fits(R"({"prefixItems":[{"type":"integer"}],"items":false})", "[1,2]"));
    EXPECT_FALSE(fits(R"({"dependentRequired":{"a":["b"]}})", R"({"a":1})"));
    EXPECT_FALSE(fits(R"({"if":{"required":["a"]},"then":{"required":["b"]}})", R"({"a":1})"));
    EXPECT_FALSE(fits(R"({"not":{"type":"string"}})", "\"a\""));
    EXPECT_FALSE(fits(R"({"uniqueItems":true})", "[1,2,1]"));
    EXPECT_FALSE(fits(R"({"contains":{"type":"string"}})", "[1]"));
    EXPECT_FALSE(fits(R"({"const":{"a":[1]}})", R"({"a":[2]})"));
    EXPECT_FALSE(fits(R"({"propertyNames":{"pattern":"^a"}})", R"({"b":1})"));
    EXPECT_FALSE(fits(R"({"patternProperties":{"^n":{"type":"integer"}}})", R"({"n1":"x"})"));
    EXPECT_FALSE(fits("false", "1"));
    EXPECT_TRUE(fits("true", "1"));
    EXPECT_TRUE(fits("{}", "null"));
    EXPECT_TRUE(fits(R"({"format":"date","type":["string","null"]})", "null"));
    EXPECT_TRUE(fits(R"({"title":1,"description":2,"x-own":{"type":"odd"}})", "1"));
    EXPECT_FALSE(fits(R"({"$ref":"#/$defs/A","maximum":3,"$defs":{"A":{"type":"integer"}}})", "4"));
    EXPECT_FALSE(fits(R"({"$ref":"#/$defs/A","$defs":{"A":{"type":"integer"}}})", "\"x\""));
}

TEST(Validate, ViolatedKeyword_HasItsOwnMessage) {
    EXPECT_EQ(result(R"({"minLength":2})", "\"a\""),
              "<root>: expected at least 2 characters, found string \"a\"\n");
    EXPECT_EQ(result(R"({"pattern":"^[a-z]+$"})", "\"A\""),
              "<root>: expected text that matches ^[a-z]+$, found string \"A\"\n");
    EXPECT_EQ(result(R"({"maxItems":1})", "[1,2]"),
              "<root>: expected at most 1 items, found array of 2 items\n");
    EXPECT_EQ(result(R"({"maximum":1})", "2.5"), "<root>: expected at most 1, found number 2.5\n");
    EXPECT_EQ(result(R"({"multipleOf":5})", "7"),
              "<root>: expected a multiple of 5, found integer 7\n");
    EXPECT_EQ(result(R"({"const":"a"})", "\"b\""), "<root>: expected \"a\", found string \"b\"\n");
    EXPECT_EQ(result(R"({"uniqueItems":true})", "[1,2,1]"),
              "[2]: expected no duplicate item, found integer 1\n");
    EXPECT_EQ(result(R"({"allOf":[{"required":["a"]},{"required":["a"]}]})", "{}"),
              "a: field required\n");
}

TEST(Validate, RecursiveSchema_IsValidated) {
    constexpr std::string_view tree = R"({"type":"object","properties":{"name":{"type":"string"},
        "child":{"$ref":"#"}},"required":["name"]})";
    EXPECT_EQ(result(tree, R"({"name":"a","child":{"name":"b","child":{}}})"),
              "child.child.name: field required\n");
    EXPECT_EQ(result(tree, R"({"name":"a","child":{"name":"b"}})"),
              R"({"name":"a","child":{"name":"b"}})");
}

TEST(Validate, LargeIntegersAndNullCharacters_AreValidated) {
    EXPECT_EQ(result(R"({"type":"integer","minimum":0})", "18446744073709551615"),
              "18446744073709551615");
    Json small(std::uint64_t{7});
    EXPECT_TRUE(JsonSchema(json(R"({"type":"integer"})")).validate(small).empty());
    EXPECT_EQ(result(R"({"type":"string","minLength":3})", "\"a\\u0000b\""), "\"a\\u0000b\"");
}

TEST(Validate, D279_LongValue_IsMatched) {
    const JsonSchema base64(
        json(R"({"pattern":"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"})"));
    Json text(std::string(2'000'000, 'A') + "QQ==");
    EXPECT_TRUE(base64.validate(text).empty());
}

TEST(Validate, HostileValues_AreHandledSafely) {
    const JsonSchema letters(json(R"({"pattern":"^(a|b)*$"})"));
    Json text(std::string(20000, 'a'));
    EXPECT_TRUE(letters.validate(text).empty());
    Json longer(std::string(1000000, 'a'));
    EXPECT_LE(letters.validate(longer).size(), 1U);
    Json slow(std::string(40, 'a') + "!");
    EXPECT_FALSE(JsonSchema(json(R"({"pattern":"^(a+)+$"})")).validate(slow).empty());
    std::string hostile;
    for (int i = 0; i < 500; ++i) hostile += "a?";
    EXPECT_FALSE(JsonSchema(JsonObject{{"pattern", hostile + "b"}}).validate(slow).empty());
    Json deep;
    for (int i = 0; i < 2000; ++i) {
        JsonArray outer;
        outer.push_back(std::move(deep));
        deep = std::move(outer);
    }
    EXPECT_EQ(JsonSchema(json(R"({"items":{"$ref":"#"}})")).validate(deep).at(0).path, "<root>");
    Json key(JsonObject{});
    key.as_object()[std::string(100000, 'a')] = 1;
    EXPECT_FALSE(
        JsonSchema(json(R"({"patternProperties":{"^(a|b)*$":{}},"additionalProperties":false})"))
            .validate(key)
            .empty());
}

TEST(Validate, D136_CopiesOfDefaults_AreLimited) {
    const auto validated = [](std::size_t bytes) {
        Json schema = json(R"({"properties":{"a":{"type":"array","items":{"properties":{
            "p":{"$ref":"#/$defs/d"},"q":{"$ref":"#/$defs/d"}}}}},"$defs":{"d":{}}})");
        schema.at_pointer("/properties/a").as_object()["default"] = JsonArray(50, JsonObject());
        schema.at_pointer("/$defs/d").as_object()["default"] = std::string(bytes, 'x');
        Json value(JsonObject{});
        return lines(JsonSchema(std::move(schema)).validate(value));
    };
    EXPECT_EQ(validated(10'000), "");
    EXPECT_EQ(validated(100'000),
              "<root>: cannot be checked: the defaults of its schema have more than 8388608 bytes "
              "together\n");
}

TEST(Validate, LargeAlternatives_AreCopiedAFewTimes) {
    // Each attempt copies the value. Without a limit the last alternative would insert its default.
    JsonArray alternatives(200, JsonObject{{"required", JsonArray{"missing"}}});
    alternatives.emplace_back(json(R"({"properties":{"b":{"default":1}}})"));
    const JsonSchema schema(JsonObject{{"anyOf", std::move(alternatives)}});
    Json small(JsonObject{{"a", "x"}});
    EXPECT_TRUE(schema.validate(small).empty());
    EXPECT_TRUE(small.as_object().contains("b"));
    Json large(JsonObject{{"a", std::string(1'000'000, 'x')}});
    EXPECT_TRUE(schema.validate(large).empty());
    EXPECT_FALSE(large.as_object().contains("b"));
}

TEST(Validate, ManyIssues_EndTheExplanation) {
    const JsonSchema schema(json(R"({"items":{"type":"object"}})"));
    Json value(JsonArray(20'000, "x"));
    const auto issues = schema.validate(value);
    EXPECT_EQ(issues.size(), detail::most_explained_issues);
    EXPECT_NE(format_issues("f", issues).find("\n- and many more problems"), std::string::npos);
    Json fields(JsonObject{});
    for (int i = 0; i < 2'000; ++i) fields.as_object()[std::to_string(i)] = 0;
    EXPECT_EQ(JsonSchema(json(R"({"additionalProperties":false})")).validate(fields).size(),
              detail::most_explained_issues);
}

TEST(Validate, TextsOfIssues_AreLimited) {
    const std::string key(100'000, 'k');
    Json value(JsonObject{{key, JsonArray(900, "x")}});
    const auto issues = JsonSchema(json(R"({"additionalProperties":{"items":{"type":"integer"}}})"))
                            .validate(value);
    EXPECT_FALSE(issues.empty());
    EXPECT_LT(issues.size(), 100U);
}

TEST(CompileSchema, InvalidSchema_NamesThePlace) {
    EXPECT_EQ(compile_problem(R"({"properties":{"a/b":{"type":"strng"}}})"),
              "the JSON Schema is not valid at /properties/a~1b/type: \"strng\" is not a type");
    EXPECT_EQ(compile_problem("3"),
              "the JSON Schema is not valid at its root: expected an object or a boolean, found "
              "integer 3");
    EXPECT_EQ(
        compile_problem(R"({"required":true})"),
        "the JSON Schema is not valid at /required: expected a list of names, found boolean true");
    EXPECT_EQ(compile_problem(R"({"items":{"pattern":"("}})")
                  .find("the JSON Schema is not valid at /items/pattern: not a "
                        "regular expression"),
              0U);
    EXPECT_EQ(compile_problem(R"({"properties":{"a":{"$ref":"#/$defs/Nope"}}})"),
              "the JSON Schema is not valid at /properties/a/$ref: there is no \"#/$defs/Nope\" in "
              "this schema "
              "(references to other documents are not followed)");
    for (const auto* schema :
         {R"({"multipleOf":0})", R"({"minLength":-1})", R"({"enum":3})", R"({"anyOf":[]})",
          R"({"allOf":[{"$ref":"#"}]})", R"({"$ref":"#"})", R"({"properties":[]})",
          R"({"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"})",
          R"({"minimum":"1"})", R"({"additionalProperties":3})", R"({"$ref":"http://x/y"})"}) {
        EXPECT_NE(compile_problem(schema), "compiles") << schema;
    }
    EXPECT_EQ(compile_problem(R"({"required":[],"type":"object"})"), "compiles");
}

TEST(CompileSchema, LongChainOfReferences_IsRefused) {
    JsonObject definitions;
    for (int i = 0; i < 600; ++i)
        definitions[std::to_string(i)] = JsonObject{{"$ref", "#/$defs/" + std::to_string(i + 1)}};
    definitions["600"] = true;
    JsonObject schema{{"$ref", "#/$defs/0"}, {"$defs", std::move(definitions)}};
    EXPECT_EQ(compile_problem(boost::json::serialize(schema)),
              "the JSON Schema is not valid at /$ref: the chain of references is too long");
}

TEST(CompileSchema, InvalidSchema_FailsAtEachUse) {
    const JsonSchema schema(json(R"({"type":"odd"})"));
    Json value;
    EXPECT_THROW(schema.validate(value), Error);
    EXPECT_THROW(schema.validate(value), Error);
}

TEST(CompileSchema, Source_RemainsAsGiven) {
    const auto given =
        json(R"({"title":"T","type":"object","format":"x","properties":{"a":{"multipleOf":2}}})");
    const JsonSchema schema(given);
    schema.compile();
    EXPECT_EQ(schema.source(), given);
}

TEST(CompileSchema, ConcurrentThreads_MayValidate) {
    const JsonSchema schema{json(weather)};
    std::vector<std::thread> threads;
    std::atomic<int> good{0};
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            for (int round = 0; round < 50; ++round) {
                Json value = json(R"({"city":"x","days":"2"})");
                if (schema.validate(value).empty()) ++good;
            }
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(good.load(), 200);
}

TEST(SchemaChecker, WorkThatGrowsWithTheSchema_IsCounted) {
    JsonArray names;
    JsonObject lists;
    JsonObject schemas;
    for (int i = 0; i < 1'600; ++i) {
        const std::string name = "n" + std::to_string(i);
        names.emplace_back(name);
        lists[name] = JsonArray{"x"};
        schemas[name] = true;
    }
    const Json value(JsonArray(200, JsonObject{{"a", 1}}));
    const auto problem = [&value](JsonObject item) {
        const Json source(JsonObject{{"items", std::move(item)}});
        const detail::CompiledSchema schema(source);
        detail::SchemaChecker checker(10'000);
        (void)checker.fits(schema.root(), value);
        return std::string(checker.problem());
    };
    names.emplace_back(JsonObject{{"a", 1}});
    EXPECT_EQ(problem(JsonObject{{"enum", std::move(names)}}), "it takes too many steps");
    EXPECT_EQ(problem(JsonObject{{"dependentRequired", std::move(lists)}}),
              "it takes too many steps");
    EXPECT_EQ(problem(JsonObject{{"patternProperties", std::move(schemas)}}),
              "it takes too many steps");
    EXPECT_EQ(problem(JsonObject{{"type", "object"}}), "");
}

TEST(SchemaChecker, ExponentialSchema_IsAbandoned) {
    // Each definition applies the next one twice.
    JsonObject definitions;
    for (int i = 0; i < 40; ++i) {
        const Json next = json(R"({"$ref":"#/$defs/)" + std::to_string(i + 1) + "\"}");
        definitions[std::to_string(i)] = JsonObject{{"allOf", JsonArray{next, next}}};
    }
    definitions["40"] = JsonObject{{"type", "integer"}};
    const Json source(JsonObject{{"$ref", "#/$defs/0"}, {"$defs", std::move(definitions)}});
    const detail::CompiledSchema schema(source);
    detail::SchemaChecker checker(1000);
    EXPECT_FALSE(checker.fits(schema.root(), Json(1)));
    EXPECT_EQ(checker.problem(), "it takes too many steps");
}
