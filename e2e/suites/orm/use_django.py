"""Ordinary use of Django: migrations, models, transactions, relations, sessions. Argument: CONN_MAX_AGE or `none`."""

import os
import pathlib
import sys
import tempfile
from decimal import Decimal

import django
from django.conf import settings

import common
from common import expect

AGE = None if sys.argv[1] == "none" else int(sys.argv[1])
SCRATCH = tempfile.mkdtemp(prefix="delphinus-orm-")
MIGRATIONS = pathlib.Path(SCRATCH) / "shop_migrations"
MIGRATIONS.mkdir()
(MIGRATIONS / "__init__.py").touch()
sys.path.insert(0, SCRATCH)
settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.mysql",
            "HOST": common.HOST,
            "PORT": common.PORT,
            "USER": common.USER,
            "PASSWORD": common.PASSWORD,
            "NAME": common.DATABASE,
            "CONN_MAX_AGE": AGE,
            "CONN_HEALTH_CHECKS": True,
            "OPTIONS": {"charset": "utf8mb4", "isolation_level": "read committed"},
        }
    },
    INSTALLED_APPS=[
        "django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions", "shop",
    ],
    MIGRATION_MODULES={"shop": "shop_migrations"},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    USE_TZ=True,
    SECRET_KEY="only for this test",
)
django.setup()

from django.contrib.auth.models import User  # noqa: E402
from django.contrib.sessions.backends.db import SessionStore  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import IntegrityError, close_old_connections, connection, transaction  # noqa: E402
from django.db.models import Avg, Count, F, Sum  # noqa: E402
from shop.models import Line, Order, Product, Tag  # noqa: E402


def migrate():
    call_command("makemigrations", "shop", verbosity=0)
    call_command("migrate", verbosity=0)
    call_command("migrate", verbosity=0)
    expect("shop_order" in connection.introspection.table_names(), True, "tables")
    call_command("inspectdb", stdout=open(os.devnull, "w"))


def stock(thread):
    products = [
        Product(name=f"product {thread} {at}", price=Decimal("1.50") * (at + 1), details={"at": [at]}) for at in range(50)
    ]
    Product.objects.bulk_create(products, batch_size=20)
    tag, _ = Tag.objects.get_or_create(name=f"tag {thread}")
    for product in Product.objects.filter(name__startswith=f"product {thread} ")[:10]:
        product.tags.add(tag)
        product.stock = 1000
        product.save(update_fields=["stock"])


def request(thread, number):
    """What a web application does for one request."""
    close_old_connections()
    user, is_new = User.objects.get_or_create(username=f"user{thread}")
    if is_new:
        user.set_password("secret")
        user.save()
        stock(thread)
    mine = Product.objects.filter(name__startswith=f"product {thread} ")
    with transaction.atomic():
        order = Order.objects.create(customer=user)
        chosen = list(mine.select_for_update().order_by("id")[:3])
        Line.objects.bulk_create(Line(order=order, product=one, quantity=at + 1) for at, one in enumerate(chosen))
        Product.objects.filter(pk__in=[one.pk for one in chosen]).update(stock=F("stock") - 1)
        try:
            with transaction.atomic():
                Tag.objects.create(name=f"tag {thread}")
        except IntegrityError:
            pass
    found = Order.objects.select_related("customer").prefetch_related("lines__product__tags").get(pk=order.pk)
    expect(found.customer.username, f"user{thread}", "customer")
    expect([line.quantity for line in found.lines.all()], [1, 2, 3], "lines")
    expect(found.lines.all()[0].product.tags.all()[0].name, f"tag {thread}", "tag")
    total = Line.objects.filter(order=order).aggregate(total=Sum(F("quantity") * F("product__price")))["total"]
    expect(total, Decimal("21.00"), "total")
    expect(mine.annotate(n=Count("tags")).filter(n=1).count(), 10, "tagged")
    expect(mine.first().details, {"at": [0]}, "JSON")
    expect(len(list(mine.iterator(chunk_size=10))), 50, "iterated")
    found.is_paid = True
    found.save()
    Order.objects.update_or_create(pk=order.pk, defaults={"is_paid": False})
    changed = list(mine[:5])
    for one in changed:
        one.price += 0
    Product.objects.bulk_update(changed, ["price"])
    mine.aggregate(Avg("price"))
    session = SessionStore()
    session["number"] = number
    session.save()
    expect(SessionStore(session.session_key)["number"], number, "session")
    session.delete()
    try:
        with transaction.atomic():
            Order.objects.create(customer=user)
            raise KeyError("rolled back")
    except KeyError:
        pass
    expect(Order.objects.filter(customer=user).count(), number + 1, "orders")
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s, COUNT(*) FROM shop_tag WHERE name = %s", [number, f"tag {thread}"])
        expect(cursor.fetchone(), (number, 1), "raw SQL")
    close_old_connections()


def clean():
    Order.objects.all().delete()
    Product.objects.all().delete()
    call_command("flush", interactive=False, verbosity=0)
    call_command("migrate", "shop", "zero", verbosity=0)


def main():
    common.once("migrate", migrate)
    common.once("requests", lambda: common.in_threads(request))
    common.once("clean", clean)
    connection.close()


main()
