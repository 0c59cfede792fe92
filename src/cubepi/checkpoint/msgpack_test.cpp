#include <cubepi/checkpoint/format/message_row.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>

namespace cubepi {
namespace {

std::string packed(const Json& value) {
    std::string bytes;
    detail::append_msgpack(bytes, value);
    return bytes;
}

std::string hex(const std::string& bytes) {
    std::string text;
    for (const char c : bytes) {
        constexpr const char* digits = "0123456789abcdef";
        text += digits[static_cast<unsigned char>(c) >> 4U];
        text += digits[static_cast<unsigned char>(c) & 15U];
    }
    return text;
}

std::string bytes_of(std::initializer_list<int> values) {
    std::string bytes;
    for (const int value : values) bytes += static_cast<char>(value);
    return bytes;
}

TEST(MessagePack, D71_Write_EqualsPython) {
    // The right sides: msgpack.packb(value, use_bin_type=True).hex()
    EXPECT_EQ(hex(packed(nullptr)), "c0");
    EXPECT_EQ(hex(packed(true)), "c3");
    EXPECT_EQ(hex(packed(127)), "7f");
    EXPECT_EQ(hex(packed(128)), "cc80");
    EXPECT_EQ(hex(packed(65535)), "cdffff");
    EXPECT_EQ(hex(packed(65536)), "ce00010000");
    EXPECT_EQ(hex(packed(std::int64_t{1} << 53)), "cf0020000000000000");
    EXPECT_EQ(hex(packed(std::numeric_limits<std::uint64_t>::max())), "cfffffffffffffffff");
    EXPECT_EQ(hex(packed(-1)), "ff");
    EXPECT_EQ(hex(packed(-32)), "e0");
    EXPECT_EQ(hex(packed(-33)), "d0df");
    EXPECT_EQ(hex(packed(-128)), "d080");
    EXPECT_EQ(hex(packed(-129)), "d1ff7f");
    EXPECT_EQ(hex(packed(-32769)), "d2ffff7fff");
    EXPECT_EQ(hex(packed(std::numeric_limits<std::int64_t>::min())), "d38000000000000000");
    EXPECT_EQ(hex(packed(1.0)), "cb3ff0000000000000");
    EXPECT_EQ(hex(packed("Zo\xc3\xab")), "a45a6fc3ab");
    EXPECT_EQ(hex(packed(Json(std::string(32, 'x')))).substr(0, 6), "d92078");
    EXPECT_EQ(hex(packed(Json(std::string(256, 'x')))).substr(0, 8), "da010078");
    EXPECT_EQ(hex(packed(Json(std::string(65536, 'x')))).substr(0, 12), "db0001000078");
    JsonObject object;
    object["b"] = JsonArray{1, "x"};
    object["a"] = JsonObject();
    EXPECT_EQ(hex(packed(object)), "82a1629201a178a16180");
    EXPECT_EQ(hex(packed(JsonArray(16, nullptr))).substr(0, 8), "dc0010c0");
}

TEST(MessagePack, D41_WrittenValue_IsReadInTheSameOrder) {
    JsonObject object;
    for (const char* key :
         {"z", "a", "m", "key of more than 31 bytes, which has a size of its own"})
        object[key] = 1;
    for (int i = 0; i < 20; ++i) object[std::to_string(i)] = i * 0.1;
    object["big"] = std::numeric_limits<std::uint64_t>::max();
    object["nul"] = std::string("a\0b", 3);
    JsonArray list;
    for (const std::int64_t number :
         {std::int64_t{9007199254740993}, std::int64_t{-9007199254740993},
          std::numeric_limits<std::int64_t>::min(), std::int64_t{-1}})
        list.emplace_back(number);
    list.emplace_back(std::string(70000, 'x'));
    list.emplace_back(-0.0);
    list.emplace_back(std::numeric_limits<double>::infinity());
    object["list"] = list;
    const Json read = detail::parse_msgpack(packed(object));
    EXPECT_EQ(boost::json::serialize(read), boost::json::serialize(Json(object)));
    EXPECT_EQ(packed(read), packed(object));
}

TEST(MessagePack, InvalidUtf8_BecomesTheReplacementCharacter) {
    EXPECT_EQ(hex(packed("a\xff")), "a461efbfbd");
    EXPECT_EQ(detail::parse_msgpack("\xa2\x61\xff").as_string(), "a\xef\xbf\xbd");
}

TEST(MessagePack, EveryFormat_IsRead) {
    EXPECT_EQ(detail::parse_msgpack(bytes_of({0xca, 0x3f, 0x80, 0, 0})), Json(1.0));
    EXPECT_EQ(detail::parse_msgpack("\xc4\x01x").as_string(), "x");
    EXPECT_EQ(detail::parse_msgpack(bytes_of({0xd1, 0xff, 0x7f})), Json(-129));
    EXPECT_EQ(detail::parse_msgpack(bytes_of({0xcf, 0, 0, 0, 0, 0, 0, 0, 5})).as_int64(), 5);
    EXPECT_EQ(detail::parse_msgpack(bytes_of({0xdf, 0, 0, 0, 1, 0xa1, 'k', 0xc2})),
              Json(JsonObject{{"k", false}}));
    EXPECT_EQ(detail::parse_msgpack(bytes_of({0xdd, 0, 0, 0, 1, 0xc0})), Json(JsonArray{nullptr}));
}

TEST(MessagePack, InvalidData_IsRefused) {
    const std::string deep(700, '\x91');
    for (const std::string& data :
         {std::string(), bytes_of({0xa5, 'a'}), bytes_of({0xc1}), bytes_of({0xd4, 1, 1}),
          bytes_of({0x81, 1, 1}), bytes_of({0xdd, 0xff, 0xff, 0xff, 0xff}),
          bytes_of({0xdb, 0xff, 0xff, 0xff, 0xff, 'x'}), bytes_of({1, 1}), deep}) {
        try {
            (void)detail::parse_msgpack(data);
            ADD_FAILURE() << hex(data).substr(0, 20);
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::parse);
        }
    }
}

TEST(MessagePack, TruncatedValue_IsRefused) {
    JsonObject object;
    object["text"] = std::string(40, 'x');
    object["numbers"] = JsonArray{1, 1000, -1000, 100000, 1.5, nullptr, true};
    const std::string whole = packed(object);
    for (std::size_t size = 0; size < whole.size(); ++size)
        EXPECT_THROW((void)detail::parse_msgpack(std::string_view(whole).substr(0, size)), Error);
}

}  // namespace
}  // namespace cubepi
