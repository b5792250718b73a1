// Draws a figure's own SVG on a canvas, in its light variant, and offers what comes of it as a file.
for (const button of document.querySelectorAll("button.png")) {
  button.parentElement.hidden = false;
  button.addEventListener("click", () => {
    const link = button.closest("ul").querySelector("a.svg");
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = 2 * image.width;
      canvas.height = 2 * image.height;
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      const file = document.createElement("a");
      file.download = link.download.replace(/svg$/, "png");
      file.href = canvas.toDataURL("image/png");
      file.click();
    };
    image.src = link.href.replace("prefers-color-scheme%3A%20dark", "max-width%3A%200px");
  });
}
