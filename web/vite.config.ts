import { defineConfig } from "vite";

// Three files with fixed names, so that a build of the same sources has the same bytes, and CMake can embed them. Relative addresses,
// because a proxy may serve the console below a prefix.
export default defineConfig({
  base: "./",
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: {
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 0,
    rollupOptions: {
      output: { entryFileNames: "app.js", assetFileNames: "app[extname]", inlineDynamicImports: true },
    },
  },
});
