# Install rules: see below for what they leave behind.
