import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.Request;
import org.junit.runner.manipulation.Filter;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/** Runs the JUnit tests of a folder of classes, or one of them, and prints one line for each test. */
public final class SuiteRunner extends RunListener {
    private String problem;
    private boolean skipped;
    private long begun;

    public static void main(String[] arguments) throws Exception {
        Path classes = Path.of(arguments[0]);
        String only = arguments.length > 1 ? arguments[1] : null;
        JUnitCore core = new JUnitCore();
        core.addListener(new SuiteRunner());
        for (Class<?> type : testClasses(classes)) {
            if (only == null) {
                core.run(Request.aClass(type));
            } else if (only.startsWith(type.getName() + ".")) {
                core.run(Request.aClass(type).filterWith(named(only)));
            }
        }
        // Threads of the driver's pools may be left.
        System.exit(0);
    }

    private static List<Class<?>> testClasses(Path folder) throws Exception {
        List<Path> files;
        try (Stream<Path> all = Files.walk(folder)) {
            files = all.filter(file -> file.toString().matches(".*Test(Suite)?\\.class")).sorted().collect(Collectors.toList());
        }
        List<Class<?>> types = new ArrayList<>();
        for (Path file : files) {
            String name = folder.relativize(file).toString().replace('/', '.').replaceAll("\\.class$", "");
            Class<?> type = Class.forName(name, false, SuiteRunner.class.getClassLoader());
            boolean has = Stream.of(type.getMethods()).anyMatch(method -> method.isAnnotationPresent(org.junit.Test.class));
            if (has && !java.lang.reflect.Modifier.isAbstract(type.getModifiers())) {
                types.add(type);
            }
        }
        return types;
    }

    private static Filter named(String name) {
        return new Filter() {
            @Override
            public boolean shouldRun(Description description) {
                return description.isTest() ? nameOf(description).equals(name) : description.getChildren().stream().anyMatch(this::shouldRun);
            }

            @Override
            public String describe() {
                return name;
            }
        };
    }

    private static String nameOf(Description description) {
        return description.getClassName() + "." + description.getMethodName();
    }

    @Override
    public void testStarted(Description description) {
        problem = null;
        skipped = false;
        begun = System.nanoTime();
    }

    @Override
    public void testFailure(Failure failure) {
        if (failure.getDescription().isTest()) {
            problem = String.valueOf(failure.getException()).replace('\n', ' ');
        } else {
            // A whole class that could not begin or end.
            System.out.printf("%nFAIL %s: %s%n", failure.getDescription().getDisplayName(), failure.getException());
        }
    }

    @Override
    public void testAssumptionFailure(Failure failure) {
        skipped = true;
        if (!failure.getDescription().isTest()) {
            System.out.printf("%nskip %s: %s%n", failure.getDescription().getDisplayName(), "assumption");
        }
    }

    @Override
    public void testIgnored(Description description) {
        System.out.printf("%nskip %s: ignored%n", nameOf(description));
    }

    @Override
    public void testFinished(Description description) {
        String name = nameOf(description);
        if (problem != null) {
            System.out.printf("%nFAIL %s: %s%n", name, problem);
        } else if (skipped) {
            System.out.printf("%nskip %s: assumption%n", name);
        } else {
            System.out.printf("%nok %s (%.1f s)%n", name, (System.nanoTime() - begun) / 1e9);
        }
    }
}
