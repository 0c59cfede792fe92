#include "code_view.hpp"

#include <gtest/gtest.h>

#include <string>

namespace cubepi::app {
namespace {

TEST(DiffView, LinesOfBothFiles_AreNumbered) {
    const DiffView view =
        diff_view({"@@ -9,3 +9,4 @@\n a\n-b\tc\n+B\r\n+C\x1b\n d\n\\ No newline at end of file\n"},
                  Style(), 0);
    EXPECT_EQ(view.text.str(),
              "  @@ -9,3 +9,4 @@\n"
              "      9  a\n"
              "     10 -b\tc\n"
              "     10 +B^M\n"
              "     11 +C^[\n"
              "     12  d\n"
              "        \\ No newline at end of file\n");
    EXPECT_FALSE(view.cut);
}

TEST(DiffView, OmittedLines_AreReported) {
    const std::string diff = "@@ -0,0 +1,3 @@\n+a\n+b\n+c\n";
    const DiffView view = diff_view({diff, "", 40}, Style(), 2);
    EXPECT_EQ(view.text.str(), "  @@ -0,0 +1,3 @@\n      1 +a\n        … and 42 more lines\n");
    EXPECT_TRUE(view.cut);
    EXPECT_FALSE(diff_view({diff}, Style(), 4).cut);
    const std::string long_line = "@@ -0,0 +1,1 @@\n+" + std::string(5000, 'x') + "\n";
    EXPECT_TRUE(diff_view({long_line}, Style(), 4).cut);
    EXPECT_FALSE(diff_view({long_line}, Style(), 0).cut);
}

}  // namespace
}  // namespace cubepi::app
