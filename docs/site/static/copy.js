// Gives each block of code a button that copies it; of a Python session, what was typed. Browsers offer no clipboard to pages that
// come over plain HTTP.
if (navigator.clipboard) {
  for (const block of document.querySelectorAll("div.highlight")) {
    const typed = block.textContent.split("\n").filter((line) => /^(>>>|\.\.\.)( |$)/.test(line));
    const text = typed.length ? typed.map((line) => line.slice(4)).join("\n") + "\n" : block.textContent;
    const button = document.createElement("button");
    button.className = "bitpress-copy";
    button.textContent = "Copy";
    button.onclick = async () => {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    };
    block.append(button);
  }
}
